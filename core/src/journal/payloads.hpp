// payloads.hpp: files for payloads that are too large for a row. A file is used again and again: its name is durable
// from its first use on, and writing over it needs neither a new directory entry nor, mostly, new blocks, so that one
// fdatasync makes it durable. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::journal {

using PayloadFile = std::int64_t;  // its number, from 1; 0: none

class PayloadFiles {
 public:
  static constexpr std::size_t kIdle = 32;  // files that are kept for the next payload
  static constexpr std::uint64_t kIdleBytes = 256ULL
                                              << 20;  // in all; one that is larger than its part goes when it is let go

  explicit PayloadFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Those of `used` are taken; the rest of what lies there is idle. Errors: io_error.
  Outcome<void> open(const std::set<PayloadFile>& used);
  /// Writes `parts` one after the other to an idle file and syncs it. Errors: no_space (no idle file is kept then),
  /// io_error; no file is taken.
  Outcome<PayloadFile> write(const std::vector<ByteView>& parts);
  /// The first `bytes` of a file. Errors: corrupt_data when it is shorter; io_error.
  Outcome<Bytes> read(PayloadFile payload, std::uint64_t bytes) const;
  /// Nothing durable names it any more.
  void let_go(PayloadFile payload);

  /// No file is kept for later.
  void give_back();

  std::filesystem::path path_of(PayloadFile payload) const;

 private:
  std::filesystem::path folder_;
  std::vector<PayloadFile> idle_;  // the last one is taken next: its pages may still be in memory
  PayloadFile highest_ = 0;
};

}  // namespace gearbox::journal
