#include "sqlite/sqlite.hpp"

#include <sqlite3.h>

#include "gearbox/base/text.hpp"

namespace gearbox::sqlite {

namespace {

constexpr int kBusyTimeoutMs = 5000;  // another process may be writing: the command line beside central

Error error_from(sqlite3* handle, int code) {
  const std::string detail =
      std::string("database: ") + (handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code));
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return Error{Errc::no_space, detail};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error{Errc::overloaded, detail};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Error{Errc::corrupt_data, detail};
    default:
      return Error{Errc::io_error, detail};
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::rewind() {
  sqlite3_reset(statement_.get());  // its result repeats the last step's error, which was reported then
  sqlite3_clear_bindings(statement_.get());
}

void Statement::bind(int index, std::string_view value) {
  sqlite3_bind_text(statement_.get(), index, value.data() != nullptr ? value.data() : "",
                    static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

void Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}

void Statement::bind(int index, ByteView value) {
  // A null pointer would be NULL, not an empty BLOB.
  sqlite3_bind_blob64(statement_.get(), index, value.data() != nullptr ? static_cast<const void*>(value.data()) : "",
                      value.size(), SQLITE_STATIC);
}

Outcome<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  Error error = error_from(sqlite3_db_handle(statement_.get()), code);
  sqlite3_reset(statement_.get());
  return error;
}

std::string Statement::text(int column) const {
  const auto* data = sqlite3_column_text(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string()
                         : std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(bytes));
}

Bytes Statement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? Bytes() : Bytes(data, data + size);
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Outcome<Database> Database::open(const std::filesystem::path& file, bool create) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  Database database;
  database.handle_.reset(handle);
  if (code != SQLITE_OK) {
    Error error = error_from(handle, code);
    error.detail += " (" + escaped(file.string()) + ")";
    return error;
  }
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  sqlite3_extended_result_codes(handle, 1);
  return database;
}

Outcome<void> Database::run(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_from(handle_.get(), code);
  return done();
}

Outcome<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return error_from(handle_.get(), code);
  Statement prepared;
  prepared.statement_.reset(statement);
  return prepared;
}

std::int64_t Database::changed_rows() const {
  return sqlite3_changes(handle_.get());
}

Database::Transaction::~Transaction() {
  // A failed rollback leaves nothing to do: SQLite has then rolled back by itself.
  if (open_) sqlite3_exec(database_->handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Outcome<void> Database::Transaction::begin() {
  BOOST_OUTCOME_TRY(database_->run("BEGIN IMMEDIATE"));
  open_ = true;
  return done();
}

Outcome<void> Database::Transaction::commit() {
  BOOST_OUTCOME_TRY(database_->run("COMMIT"));
  open_ = false;
  return done();
}

}  // namespace gearbox::sqlite
