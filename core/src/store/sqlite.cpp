#include "store/sqlite.hpp"

namespace gearbox::store {

Error error_of(sqlite3* database, int code, std::string_view doing) {
  std::string text(doing);
  text += ": ";
  text += database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return Error{Errc::no_space, std::move(text)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error{Errc::corrupt_data, std::move(text)};
    default:
      return Error{Errc::io_error, std::move(text)};
  }
}

Outcome<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return error_of(sqlite3_db_handle(handle_.get()), code, "index");
}

Outcome<Database> Database::open(const std::filesystem::path& file, bool read_only) {
  sqlite3* raw = nullptr;
  const int flags = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) return error_of(raw, code, file.string());
  sqlite3_busy_timeout(raw, 2000);
  // SQLite looks at the file only now.
  BOOST_OUTCOME_TRY(database.run("SELECT count(*) FROM sqlite_master"));
  return database;
}

Outcome<void> Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, "index");
  return done();
}

Outcome<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, "index");
  return Statement(raw);
}

}  // namespace gearbox::store
