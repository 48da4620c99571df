#include "sinks/queue.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::sinks {

namespace {

constexpr std::int64_t kVersion = 1;

constexpr const char* kSchema = R"sql(
  CREATE TABLE event(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    device TEXT NOT NULL, request TEXT NOT NULL, state TEXT NOT NULL,
    body TEXT NOT NULL,     -- empty when no sink waits for it any more
    keep INTEGER NOT NULL,  -- 1: until its request is forgotten
    UNIQUE(device, request, state));
  CREATE TABLE waiting(
    sink TEXT NOT NULL, event INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY(sink, event)) WITHOUT ROWID;
  CREATE INDEX waiting_by_event ON waiting(event);
  PRAGMA user_version = 1;
)sql";

}  // namespace

Outcome<Queue> Queue::open(const std::filesystem::path& file) {
  Queue queue;
  BOOST_OUTCOME_TRY(queue.database_, sqlite::Database::open(file, true));
  // FULL: a commit is on the disk when it returns. Sinks may hear of an event only what the next process knows, too.
  BOOST_OUTCOME_TRY(queue.database_.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"));
  BOOST_OUTCOME_TRY(auto version, queue.database_.prepare("PRAGMA user_version"));
  BOOST_OUTCOME_TRY(version.first());
  const std::int64_t found = version.integer(0);
  version.rewind();
  if (found > kVersion) {
    return Error{Errc::unsupported_version, file.string() + " is of version " + std::to_string(found) +
                                                ", this broker knows " + std::to_string(kVersion)};
  }
  BOOST_OUTCOME_TRY(auto check, queue.database_.prepare("PRAGMA quick_check(1)"));
  BOOST_OUTCOME_TRY(check.first());
  if (check.text(0) != "ok") return Error{Errc::corrupt_data, check.text(0)};
  check.rewind();
  if (found == 0) {
    sqlite::Database::Transaction all(queue.database_);
    BOOST_OUTCOME_TRY(all.begin());
    BOOST_OUTCOME_TRY(queue.database_.run(kSchema));
    BOOST_OUTCOME_TRY(all.commit());
  }
  sqlite::Database& database = queue.database_;
  BOOST_OUTCOME_TRY(queue.put_, database.prepare("INSERT OR IGNORE INTO event(device, request, state, body, keep) "
                                                 "VALUES(?1, ?2, ?3, ?4, ?5) RETURNING id"));
  BOOST_OUTCOME_TRY(queue.wait_, database.prepare("INSERT INTO waiting(sink, event, bytes) VALUES(?1, ?2, ?3)"));
  BOOST_OUTCOME_TRY(queue.first_, database.prepare("SELECT event.id, event.body FROM waiting JOIN event ON "
                                                   "event.id = waiting.event WHERE waiting.sink = ?1 "
                                                   "ORDER BY waiting.event LIMIT ?2"));
  BOOST_OUTCOME_TRY(queue.out_, database.prepare("DELETE FROM waiting WHERE sink = ?1 AND event = ?2 RETURNING bytes"));
  BOOST_OUTCOME_TRY(queue.drop_, database.prepare("DELETE FROM event WHERE id = ?1 AND keep = 0 AND NOT EXISTS("
                                                  "SELECT 1 FROM waiting WHERE event = ?1)"));
  BOOST_OUTCOME_TRY(queue.blank_, database.prepare("UPDATE event SET body = '' WHERE id = ?1 AND body != '' AND NOT "
                                                   "EXISTS(SELECT 1 FROM waiting WHERE event = ?1)"));
  BOOST_OUTCOME_TRY(queue.forget_,
                    database.prepare("UPDATE event SET keep = 0 WHERE device = ?1 AND request = ?2 AND keep = 1"));
  BOOST_OUTCOME_TRY(queue.forget_done_,
                    database.prepare("DELETE FROM event WHERE device = ?1 AND request = ?2 AND NOT EXISTS("
                                     "SELECT 1 FROM waiting WHERE waiting.event = event.id)"));
  return queue;
}

void Queue::rollback() {
  for (sqlite::Statement* each : {&put_, &wait_, &first_, &out_, &drop_, &blank_, &forget_, &forget_done_}) {
    each->rewind();
  }
  // After some failures SQLite has rolled back by itself, and says that there is nothing to roll back.
  if (const Outcome<void> back = database_.run("ROLLBACK"); !back) {
    spdlog::debug("sinks: {}", escaped(describe(back.error())));
  }
}

Outcome<bool> Queue::put(const RequestKey& key, std::string_view state, std::string_view body,
                         const std::vector<std::string>& sinks, bool keep) {
  BOOST_OUTCOME_TRY(const bool is_new, put_.first(to_text(key.device), to_text(key.id), state,
                                                  sinks.empty() ? std::string_view() : body, std::int64_t{keep}));
  if (!is_new) return false;
  const std::int64_t id = put_.integer(0);
  put_.rewind();
  for (const std::string& sink : sinks) {
    BOOST_OUTCOME_TRY(wait_.first(sink, id, static_cast<std::int64_t>(body.size())));
  }
  if (sinks.empty()) {
    BOOST_OUTCOME_TRY(drop_if_done(id));
  }
  return true;
}

Outcome<std::vector<Row>> Queue::first(const std::string& sink, std::size_t most, std::uint64_t max_bytes,
                                       const std::vector<std::int64_t>& passed_over) {
  std::vector<Row> rows;
  std::uint64_t bytes = 0;
  Outcome<bool> there = first_.first(sink, static_cast<std::int64_t>(most + passed_over.size()));
  for (; there && there.value() && rows.size() < most; there = first_.next()) {
    const std::int64_t id = first_.integer(0);
    if (std::find(passed_over.begin(), passed_over.end(), id) != passed_over.end()) continue;
    Row row{id, first_.text(1)};
    bytes += row.body.size();
    if (!rows.empty() && bytes > max_bytes) break;
    rows.push_back(std::move(row));
  }
  first_.rewind();
  if (!there) return there.error();
  return rows;
}

Outcome<Waiting> Queue::take_out(const std::string& sink, std::int64_t id) {
  BOOST_OUTCOME_TRY(const bool was_there, out_.first(sink, id));
  Waiting taken;
  if (was_there) taken = {1, static_cast<std::uint64_t>(out_.integer(0))};
  out_.rewind();
  BOOST_OUTCOME_TRY(drop_if_done(id));
  return taken;
}

Outcome<void> Queue::drop_if_done(std::int64_t id) {
  BOOST_OUTCOME_TRY(drop_.first(id));
  if (database_.changed_rows() > 0) return done();
  BOOST_OUTCOME_TRY(blank_.first(id));
  return done();
}

Outcome<void> Queue::forget(const RequestKey& key) {
  const std::string device = to_text(key.device);
  const std::string request = to_text(key.id);
  BOOST_OUTCOME_TRY(forget_.first(device, request));
  BOOST_OUTCOME_TRY(forget_done_.first(device, request));
  return done();
}

Outcome<Waiting> Queue::waiting(const std::string& sink) {
  BOOST_OUTCOME_TRY(auto sum,
                    database_.prepare("SELECT count(*), coalesce(sum(bytes), 0) FROM waiting WHERE sink = ?1"));
  BOOST_OUTCOME_TRY(sum.first(sink));
  return Waiting{static_cast<std::uint64_t>(sum.integer(0)), static_cast<std::uint64_t>(sum.integer(1))};
}

Outcome<std::vector<std::string>> Queue::sinks() {
  BOOST_OUTCOME_TRY(auto all, database_.prepare("SELECT DISTINCT sink FROM waiting"));
  std::vector<std::string> names;
  Outcome<bool> there = all.first();
  for (; there && there.value(); there = all.next()) names.push_back(all.text(0));
  if (!there) return there.error();
  return names;
}

Outcome<std::vector<RequestKey>> Queue::kept() {
  BOOST_OUTCOME_TRY(auto all, database_.prepare("SELECT DISTINCT device, request FROM event WHERE keep = 1"));
  std::vector<RequestKey> keys;
  Outcome<bool> there = all.first();
  for (; there && there.value(); there = all.next()) {
    BOOST_OUTCOME_TRY(const PublicKey device, public_key_from(all.text(0)));
    BOOST_OUTCOME_TRY(const RequestId id, request_id_from(all.text(1)));
    keys.push_back({device, id});
  }
  if (!there) return there.error();
  return keys;
}

}  // namespace gearbox::sinks
