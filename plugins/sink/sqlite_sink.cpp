#include "sink/sqlite_sink.hpp"

#include <chrono>
#include <filesystem>

namespace gearbox::sink {

namespace {

constexpr const char* kSchema = R"sql(
  PRAGMA journal_mode=WAL;
  PRAGMA synchronous=FULL;  -- what is told to be done is on the disk
  CREATE TABLE IF NOT EXISTS results(
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL, node TEXT NOT NULL, device TEXT NOT NULL, request TEXT NOT NULL,
    user TEXT NOT NULL, tenant INTEGER NOT NULL, task TEXT NOT NULL,
    accepted_unix_ms INTEGER NOT NULL, finished_unix_ms INTEGER NOT NULL, received_unix_ms INTEGER NOT NULL,
    error TEXT NOT NULL, input_bytes INTEGER NOT NULL, output_bytes INTEGER NOT NULL,
    result TEXT NOT NULL, stored_in TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS results_by_request ON results(request);
  CREATE INDEX IF NOT EXISTS results_by_task ON results(task, id);
)sql";

}  // namespace

Outcome<void> SqliteSink::open(const plugin::SinkPlace& place) {
  const std::filesystem::path file = std::filesystem::path(place.folder) / file_;  // an absolute one replaces it
  BOOST_OUTCOME_TRY(database_, sqlite::Database::open(file, true));
  BOOST_OUTCOME_TRY(database_.run(kSchema));
  BOOST_OUTCOME_TRY(
      put_, database_.prepare("INSERT OR IGNORE INTO results(key, state, node, device, request, user, tenant, task, "
                              "accepted_unix_ms, finished_unix_ms, received_unix_ms, error, input_bytes, output_bytes, "
                              "result, stored_in) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  BOOST_OUTCOME_TRY(trim_, database_.prepare("DELETE FROM results WHERE id <= (SELECT max(id) FROM results) - ?1"));
  return done();
}

plugin::Verdict SqliteSink::deliver(std::span<const plugin::EventView> events, Instant /*deadline*/) {
  if (events.empty()) return {};
  // No event is to blame: what a file does not take now, it may take when somebody has made room.
  if (const Outcome<void> written = write(events); !written) {
    return {plugin::Fate::later, describe(written.error()), milliseconds{0}};
  }
  return {};
}

Outcome<void> SqliteSink::write(std::span<const plugin::EventView> events) {
  const std::int64_t now =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  sqlite::Database::Transaction all(database_);
  BOOST_OUTCOME_TRY(all.begin());
  for (const plugin::EventView& event : events) {
    BOOST_OUTCOME_TRY(put_.first(event.key, event.state, event.node, event.device, event.request, event.user,
                                 std::int64_t{event.tenant}, event.task, event.accepted_unix_ms, event.finished_unix_ms,
                                 now, event.error, static_cast<std::int64_t>(event.input_bytes),
                                 static_cast<std::int64_t>(event.output_bytes), event.result_json, event.stored_in));
  }
  if (max_rows_ > 0) {
    BOOST_OUTCOME_TRY(trim_.first(max_rows_));
  }
  return all.commit();
}

}  // namespace gearbox::sink
