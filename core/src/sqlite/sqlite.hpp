// sqlite.hpp: the little of SQLite that central and the store use: one connection, prepared statements, errors as
// Outcome.
//
// A connection and its statements belong to one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace gearbox::sqlite {

/// One prepared statement. Usage: first(values...), then next() while there are rows.
class Statement {
 public:
  Statement() = default;

  /// Binds `values` to ?1, ?2, ... and runs to the first row. True: there is one. Text is copied.
  /// Errors: io_error (the database's own words); no_space (disk full); overloaded (locked past the busy timeout).
  template <class... Values>
  Outcome<bool> first(const Values&... values) {
    rewind();
    int index = 0;
    (bind(++index, values), ...);
    return step();
  }
  Outcome<bool> next() { return step(); }
  /// Gives back the read lock that an unfinished statement holds.
  void rewind();

  std::string text(int column) const;
  std::int64_t integer(int column) const;
  Bytes bytes(int column) const;
  bool is_null(int column) const;

  /// For whoever cannot say first(): rewind(), bind() each from 1 on, next(). Text is copied.
  void bind(int index, std::string_view value);
  void bind(int index, std::int64_t value);

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void bind(int index, const std::string& value) { bind(index, std::string_view(value)); }
  void bind(int index, const char* value) { bind(index, std::string_view(value)); }
  void bind(int index, ByteView value);  // a BLOB; not copied: it must live until the statement has run
  Outcome<bool> step();
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  Database() = default;
  /// Opens an existing file, or makes one when `create`. Errors: io_error, corrupt_data (not a database).
  static Outcome<Database> open(const std::filesystem::path& file, bool create);

  /// Runs one or several statements without values.
  Outcome<void> run(const std::string& sql);
  Outcome<Statement> prepare(std::string_view sql);
  std::int64_t changed_rows() const;  // of the last statement

  /// begin … commit; rolled back when the object goes without commit().
  class Transaction {
   public:
    explicit Transaction(Database& database) : database_(&database) {}
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction();
    Outcome<void> begin();  // takes the write lock at once, so that a read inside sees what the write will meet
    Outcome<void> commit();

   private:
    Database* database_;
    bool open_ = false;
  };

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace gearbox::sqlite
