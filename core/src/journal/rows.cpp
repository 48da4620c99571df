#include "journal/rows.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::journal {

namespace {

constexpr std::int64_t kVersion = 1;

// WITHOUT ROWID: a request is found by its key alone; `number` keeps the order in which they were accepted.
constexpr const char* kSchema = R"sql(
  CREATE TABLE IF NOT EXISTS requests(
    device BLOB NOT NULL, request BLOB NOT NULL, number INTEGER NOT NULL, head TEXT NOT NULL,
    input_bytes INTEGER NOT NULL, input_digest TEXT NOT NULL, input_payload INTEGER NOT NULL, input BLOB NOT NULL,
    openings INTEGER NOT NULL DEFAULT 0, settled INTEGER NOT NULL DEFAULT 0, ok INTEGER NOT NULL DEFAULT 0, result_head TEXT NOT NULL DEFAULT '',
    result_bytes INTEGER NOT NULL DEFAULT 0, result_digest TEXT NOT NULL DEFAULT '',
    result_payload INTEGER NOT NULL DEFAULT 0, result BLOB NOT NULL DEFAULT x'',
    settled_at_ms INTEGER NOT NULL DEFAULT 0,  -- the journal's own clock: running time
    PRIMARY KEY(device, request)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS clock(id INTEGER PRIMARY KEY CHECK(id = 0), running_ms INTEGER NOT NULL);
  INSERT OR IGNORE INTO clock VALUES(0, 0);
  PRAGMA user_version = 1;
)sql";

ByteView device_of(const RequestKey& key) {
  return key.device.bytes;
}
ByteView request_of(const RequestKey& key) {
  return key.id.bytes;
}

bool has_bytes(const std::filesystem::path& file) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(file, none);
  return !none && bytes > 0;
}

}  // namespace

Outcome<Rows> Rows::open(const std::filesystem::path& file) {
  Rows rows;
  // SQLite takes an empty file for a new one, and what its log holds for nothing. One of ours is never empty for long.
  const bool is_new = !has_bytes(file);
  if (is_new && has_bytes(file.string() + "-wal")) {
    return Error{Errc::corrupt_data, file.string() + " is empty, and its log is not"};
  }
  BOOST_OUTCOME_TRY(rows.database_, sqlite::Database::open(file, true));
  // FULL: each commit is synced to the log before it returns. EXCLUSIVE would keep the command line from looking.
  BOOST_OUTCOME_TRY(rows.database_.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"));
  BOOST_OUTCOME_TRY(auto version, rows.database_.prepare("PRAGMA user_version"));
  BOOST_OUTCOME_TRY(const bool there, version.first());
  const std::int64_t number = there ? version.integer(0) : 0;
  version.rewind();
  if (number > kVersion) {
    return Error{Errc::unsupported_version, file.string() + " is of a later version of the broker"};
  }
  BOOST_OUTCOME_TRY(auto check, rows.database_.prepare("PRAGMA quick_check(1)"));
  BOOST_OUTCOME_TRY(const bool checked, check.first());
  if (!checked || check.text(0) != "ok") {
    return Error{Errc::corrupt_data, file.string() + ": " + (checked ? check.text(0) : "cannot be checked")};
  }
  check.rewind();
  BOOST_OUTCOME_TRY(rows.database_.run(kSchema));
  if (is_new) {
    BOOST_OUTCOME_TRY(rows.database_.run("PRAGMA wal_checkpoint(TRUNCATE)"));
  }
  sqlite::Database& database = rows.database_;
  BOOST_OUTCOME_TRY(rows.accept_,
                    database.prepare("INSERT OR IGNORE INTO requests(device, request, number, head, input_bytes, "
                                     "input_digest, input_payload, input) VALUES(?1, ?2, "
                                     "(SELECT coalesce(max(number), 0) + 1 FROM requests), ?3, ?4, ?5, ?6, ?7)"));
  BOOST_OUTCOME_TRY(rows.settle_,
                    database.prepare("UPDATE requests SET settled = 1, ok = ?3, result_head = ?4, result_bytes = ?5, "
                                     "result_digest = ?6, result_payload = ?7, result = ?8, input_bytes = 0, "
                                     "input_digest = '', input_payload = 0, input = x'', settled_at_ms = ?9 "
                                     "WHERE device = ?1 AND request = ?2 AND settled = 0"));
  BOOST_OUTCOME_TRY(rows.counted_,
                    database.prepare("SELECT settled, input_payload, result_payload, input_bytes, "
                                     "result_bytes, length(CAST(head AS BLOB)) + length(CAST(result_head AS BLOB)) "
                                     "FROM requests WHERE device = ?1 AND request = ?2"));
  BOOST_OUTCOME_TRY(rows.forget_, database.prepare("DELETE FROM requests WHERE device = ?1 AND request = ?2"));
  BOOST_OUTCOME_TRY(rows.find_,
                    database.prepare("SELECT head, settled, ok, result_head, input_bytes, result_bytes, "
                                     "iif(settled, result_digest, input_digest), "
                                     "iif(settled, result_payload, input_payload), iif(settled, result, input) "
                                     "FROM requests WHERE device = ?1 AND request = ?2"));
  return rows;
}

void Rows::rollback() {
  // SQLite may have rolled back by itself: then there is nothing left to do.
  [[maybe_unused]] const Outcome<void> ended = database_.run("ROLLBACK");
}

Outcome<bool> Rows::accept(const RequestKey& key, const std::string& head, const Placed& input) {
  BOOST_OUTCOME_TRY(accept_.first(device_of(key), request_of(key), head, static_cast<std::int64_t>(input.bytes),
                                  input.digest, input.payload, ByteView(input.in_row)));
  return database_.changed_rows() == 1;
}

Outcome<Rows::Gone> Rows::settle(const RequestKey& key, bool ok, const std::string& head, const Placed& result,
                                 std::int64_t now_ms) {
  Gone gone;
  BOOST_OUTCOME_TRY(const bool there, counted_.first(device_of(key), request_of(key)));
  if (!there || counted_.integer(0) != 0) {
    counted_.rewind();
    return gone;
  }
  gone.changed = true;
  if (const PayloadFile payload = counted_.integer(1); payload != 0) gone.payloads.push_back(payload);
  gone.bytes = static_cast<std::uint64_t>(counted_.integer(3));
  counted_.rewind();
  BOOST_OUTCOME_TRY(settle_.first(device_of(key), request_of(key), std::int64_t{ok}, head,
                                  static_cast<std::int64_t>(result.bytes), result.digest, result.payload,
                                  ByteView(result.in_row), now_ms));
  return gone;
}

Outcome<Rows::Gone> Rows::forget(const RequestKey& key) {
  Gone gone;
  BOOST_OUTCOME_TRY(gone.changed, counted_.first(device_of(key), request_of(key)));
  if (!gone.changed) return gone;
  for (const int column : {1, 2}) {
    if (const PayloadFile payload = counted_.integer(column); payload != 0) gone.payloads.push_back(payload);
  }
  gone.bytes = static_cast<std::uint64_t>(counted_.integer(3) + counted_.integer(4)) +
               count_of_row(static_cast<std::size_t>(counted_.integer(5)));
  counted_.rewind();
  BOOST_OUTCOME_TRY(forget_.first(device_of(key), request_of(key)));
  return gone;
}

Outcome<std::int64_t> Rows::running_ms() {
  BOOST_OUTCOME_TRY(auto clock, database_.prepare("SELECT running_ms FROM clock"));
  BOOST_OUTCOME_TRY(const bool there, clock.first());
  return there ? clock.integer(0) : 0;
}

Outcome<void> Rows::note_running(std::int64_t now_ms) {
  BOOST_OUTCOME_TRY(auto clock, database_.prepare("UPDATE clock SET running_ms = ?1"));
  BOOST_OUTCOME_TRY(clock.first(now_ms));
  return done();
}

Outcome<void> Rows::count_opening() {
  return database_.run("UPDATE requests SET openings = openings + 1 WHERE settled = 0");
}

Outcome<void> Rows::take_opening_back() {
  return database_.run("UPDATE requests SET openings = openings - 1 WHERE settled = 0 AND openings > 0");
}

Outcome<std::vector<Kept>> Rows::all() {
  // Of what is settled, the texts are read when somebody asks for them.
  BOOST_OUTCOME_TRY(auto select,
                    database_.prepare("SELECT device, request, iif(settled, '', head), settled, ok, openings, "
                                      "input_bytes, result_bytes, settled_at_ms, "
                                      "length(CAST(head AS BLOB)) + length(CAST(result_head AS BLOB)) "
                                      "FROM requests ORDER BY number"));
  BOOST_OUTCOME_TRY(const std::int64_t now_ms, running_ms());
  std::vector<Kept> found;
  BOOST_OUTCOME_TRY(bool more, select.first());
  while (more) {
    Kept kept;
    const Bytes device = select.bytes(0);
    const Bytes request = select.bytes(1);
    if (device.size() != kept.key.device.bytes.size() || request.size() != kept.key.id.bytes.size()) {
      return Error{Errc::corrupt_data, "a row whose key is of another length"};
    }
    std::copy(device.begin(), device.end(), kept.key.device.bytes.begin());
    std::copy(request.begin(), request.end(), kept.key.id.bytes.begin());
    kept.head = select.text(2);
    kept.settled = select.integer(3) != 0;
    kept.ok = select.integer(4) != 0;
    kept.openings = static_cast<std::uint32_t>(select.integer(5));
    kept.input_bytes = static_cast<std::uint64_t>(select.integer(6));
    kept.result_bytes = static_cast<std::uint64_t>(select.integer(7));
    if (kept.settled) kept.age = milliseconds(std::max<std::int64_t>(now_ms - select.integer(8), 0));
    kept.counted = kept.input_bytes + kept.result_bytes + count_of_row(static_cast<std::size_t>(select.integer(9)));
    found.push_back(std::move(kept));
    BOOST_OUTCOME_TRY(more, select.next());
  }
  return found;
}

Outcome<std::set<PayloadFile>> Rows::payloads() {
  BOOST_OUTCOME_TRY(auto select, database_.prepare("SELECT input_payload, result_payload FROM requests "
                                                   "WHERE input_payload != 0 OR result_payload != 0"));
  std::set<PayloadFile> used;
  BOOST_OUTCOME_TRY(bool more, select.first());
  while (more) {
    for (const int column : {0, 1}) {
      if (const PayloadFile payload = select.integer(column); payload != 0) used.insert(payload);
    }
    BOOST_OUTCOME_TRY(more, select.next());
  }
  return used;
}

Outcome<std::pair<Kept, Placed>> Rows::find(const RequestKey& key) {
  BOOST_OUTCOME_TRY(const bool there, find_.first(device_of(key), request_of(key)));
  if (!there) return Error{Errc::not_found, "the journal does not hold that"};
  std::pair<Kept, Placed> found;
  auto& [kept, placed] = found;
  kept.key = key;
  kept.head = find_.text(0);
  kept.settled = find_.integer(1) != 0;
  kept.ok = find_.integer(2) != 0;
  kept.result = find_.text(3);
  kept.input_bytes = static_cast<std::uint64_t>(find_.integer(4));
  kept.result_bytes = static_cast<std::uint64_t>(find_.integer(5));
  placed.bytes = kept.settled ? kept.result_bytes : kept.input_bytes;
  placed.digest = find_.text(6);
  placed.payload = find_.integer(7);
  placed.in_row = find_.bytes(8);
  find_.rewind();
  return found;
}

}  // namespace gearbox::journal
