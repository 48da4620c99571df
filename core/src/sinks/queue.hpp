// queue.hpp: the events that wait for sinks, as rows of a SQLite database. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::sinks {

/// One event as it waits for one sink.
struct Row {
  std::int64_t id = 0;
  std::string body;
};

struct Waiting {
  std::uint64_t events = 0, bytes = 0;
};

class Queue {
 public:
  /// Opens or makes it, and checks its pages. Errors: corrupt_data; io_error; no_space; unsupported_version.
  static Outcome<Queue> open(const std::filesystem::path& file);

  Outcome<void> begin() { return database_.run("BEGIN IMMEDIATE"); }
  Outcome<void> commit() { return database_.run("COMMIT"); }
  void rollback();

  /// The event for `sinks`. `keep`: it is known until forget(), even when no sink waits for it any more. False: it is
  /// known already, and nothing was done.
  Outcome<bool> put(const RequestKey& key, std::string_view state, std::string_view body,
                    const std::vector<std::string>& sinks, bool keep);
  /// The oldest events of `sink` but for those in `passed_over`, a few: at most `most`, and no further one beyond
  /// `max_bytes`.
  Outcome<std::vector<Row>> first(const std::string& sink, std::size_t most, std::uint64_t max_bytes,
                                  const std::vector<std::int64_t>& passed_over = {});
  /// `sink` does not wait for the event any more. What waits less: that event, or nothing when it did not wait.
  Outcome<Waiting> take_out(const std::string& sink, std::int64_t id);
  /// Its events need not be known any more than sinks wait for them.
  Outcome<void> forget(const RequestKey& key);

  /// Looks at all that waits for it: for the start, not for each report.
  Outcome<Waiting> waiting(const std::string& sink);
  /// Each sink that events wait for.
  Outcome<std::vector<std::string>> sinks();
  /// Requests of which an event is kept.
  Outcome<std::vector<RequestKey>> kept();

 private:
  Outcome<void> drop_if_done(std::int64_t id);
  sqlite::Database database_;
  sqlite::Statement put_, wait_, first_, out_, drop_, blank_, forget_, forget_done_;
};

}  // namespace gearbox::sinks
