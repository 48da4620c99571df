// dead_letters.hpp: the file of events that a sink will never get: one JSON object on each line, bounded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sinks {

/// FOLDER/dead.ndjson; when that has half of the bytes allowed it becomes dead.ndjson.1, in place of the one before.
/// One thread.
class DeadLetters {
 public:
  explicit DeadLetters(std::filesystem::path folder, std::uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  /// Appends {"at_unix_ms", "why", "event"} for each JSON text; on the disk when it returns. Errors: io_error,
  /// no_space; the file then ends as it did before. What a process that was killed left of a line goes first.
  Outcome<void> add(const std::vector<std::string_view>& events, std::string_view why);
  void limit(std::uint64_t max_bytes) { max_bytes_ = max_bytes; }
  std::filesystem::path file() const { return folder_ / "dead.ndjson"; }

 private:
  std::filesystem::path folder_;
  std::uint64_t max_bytes_;
};

}  // namespace gearbox::sinks
