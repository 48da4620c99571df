// reader.cpp: how `broker results` looks into the store from another process.
#include <algorithm>
#include <string>

#include "sqlite/sqlite.hpp"
#include "store/store.hpp"

namespace gearbox::store {

namespace {

constexpr const char* kColumns =
    "SELECT request, device, user, task, error, finished_unix_ms, ok, inputs, outputs, timing, input_bytes, "
    "output_bytes, "
    "input_file, output_file FROM results ";

Outcome<sqlite::Database> open_for_reading(const std::filesystem::path& folder) {
  std::error_code failure;
  if (!std::filesystem::exists(folder / "index.db", failure)) {
    return Error{Errc::not_found, "no results are kept in " + folder.string() + " yet"};
  }
  return sqlite::Database::open(folder / "index.db", false);
}

Row row_of(const sqlite::Statement& statement, const std::filesystem::path& folder) {
  Row row;
  row.request = statement.text(0);
  row.device = statement.text(1);
  row.user = statement.text(2);
  row.task = statement.text(3);
  row.error = statement.text(4);
  row.finished_unix_ms = statement.integer(5);
  row.ok = statement.integer(6) != 0;
  row.inputs_json = statement.text(7);
  row.outputs_json = statement.text(8);
  row.timing_json = statement.text(9);
  row.input_bytes = static_cast<std::uint64_t>(statement.integer(10));
  row.output_bytes = static_cast<std::uint64_t>(statement.integer(11));
  if (!statement.text(12).empty()) row.input_file = folder / statement.text(12);
  if (!statement.text(13).empty()) row.output_file = folder / statement.text(13);
  return row;
}

}  // namespace

Outcome<std::vector<Row>> list(const std::filesystem::path& folder, std::string_view task, std::size_t limit) {
  BOOST_OUTCOME_TRY(auto database, open_for_reading(folder));
  BOOST_OUTCOME_TRY(auto select,
                    database.prepare(std::string(kColumns) + "WHERE ?1 = '' OR task = ?1 ORDER BY id DESC LIMIT ?2"));
  std::vector<Row> rows;
  BOOST_OUTCOME_TRY(bool more, select.first(task, static_cast<std::int64_t>(limit)));
  for (;;) {
    if (!more) return rows;
    rows.push_back(row_of(select, folder));
    BOOST_OUTCOME_TRY(more, select.next());
  }
}

Outcome<Row> find(const std::filesystem::path& folder, std::string_view request) {
  const bool hex = std::all_of(request.begin(), request.end(),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex || request.size() < 4 || request.size() > 32) {
    return Error{Errc::bad_input, "a request is named by 4 to 32 lower-case hexadecimal digits"};
  }
  BOOST_OUTCOME_TRY(auto database, open_for_reading(folder));
  BOOST_OUTCOME_TRY(auto select, database.prepare(std::string(kColumns) + "WHERE substr(request, 1, ?1) = ?2 LIMIT 2"));
  BOOST_OUTCOME_TRY(const bool any, select.first(static_cast<std::int64_t>(request.size()), request));
  if (!any) return Error{Errc::not_found, "no kept result of a request " + std::string(request)};
  Row row = row_of(select, folder);
  BOOST_OUTCOME_TRY(const bool second, select.next());
  if (second)
    return Error{Errc::bad_input, "more than one request begins with " + std::string(request) + "; give more digits"};
  return row;
}

}  // namespace gearbox::store
