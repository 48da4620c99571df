// sqlite.hpp: a thin owner of SQLite's handles; every error becomes an Outcome with SQLite's own words.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::store {

class Statement {
 public:
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  Statement& bind(int index, std::string_view text) {
    sqlite3_bind_text(handle_.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(int index, std::int64_t number) {
    sqlite3_bind_int64(handle_.get(), index, number);
    return *this;
  }
  /// True while there is a row. Errors: io_error, no_space.
  Outcome<bool> step();
  void reset() {
    sqlite3_reset(handle_.get());
    sqlite3_clear_bindings(handle_.get());
  }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column)));
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(handle_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

class Database {
 public:
  /// Errors: io_error with the path and the reason; corrupt_data when the file is no database or damaged.
  static Outcome<Database> open(const std::filesystem::path& file, bool read_only);
  Outcome<void> run(const char* sql);
  Outcome<Statement> prepare(std::string_view sql);

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

Error error_of(sqlite3* database, int code, std::string_view doing);

}  // namespace gearbox::store
