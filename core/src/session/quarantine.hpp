// quarantine.hpp: the requests that two workers died of: what is known of them, and that they are refused until
// somebody lets them go. With a file it outlives the process of the node (quarantine_file.hpp). One strand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "pipeline/run.hpp"

namespace gearbox::session {

struct Quarantined {
  RequestKey key;
  std::string user{}, task{};
  pipeline::Deadly deadly{};
  std::string reason{};            // what its device was told
  std::uint64_t input_bytes = 0;   // as uploaded
  std::int64_t since_unix_ms = 0;  // wall clock: for people
};

class Quarantine {
 public:
  static constexpr std::size_t kMost = 256;  // the oldest goes for one more

  /// Takes what `file` holds, and writes each change to it. That it cannot is said in the log: then it is in memory
  /// only.
  void keep_in(std::filesystem::path file);

  /// From now on: sets its since_unix_ms.
  void add(Quarantined request);
  /// Null: it is not there.
  const Quarantined* find(const RequestKey& key) const;
  /// The newest last.
  const std::deque<Quarantined>& all() const { return held_; }
  /// Lets the one go whose id begins with `id` (hexadecimal). Errors: not_found; bad_input: it is too short, or several
  /// begin so.
  Outcome<RequestKey> release(std::string_view id);

 private:
  void write() const;
  std::deque<Quarantined> held_;
  std::filesystem::path file_;  // empty: none
};

}  // namespace gearbox::session
