// connection.hpp: the little of SQL that central's accounts need, the same on SQLite and on PostgreSQL.
//
// Statements are written so that both understand them: parameters as ?1, ?2 ..., texts and 64-bit numbers only,
// ON CONFLICT instead of INSERT OR ..., "user" in quotes. A connection and its statements belong to one thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sql {

enum class Dialect { sqlite, postgres };

/// What one kind of database makes of a statement. Used through Statement.
class StatementBody {
 public:
  virtual ~StatementBody() = default;
  virtual void rewind() = 0;
  virtual void bind(int index, std::string_view value) = 0;  // copied
  virtual void bind(int index, std::int64_t value) = 0;
  virtual Outcome<bool> step() = 0;
  virtual std::string text(int column) const = 0;
  virtual std::int64_t integer(int column) const = 0;
};

/// One statement. Usage: first(values...), then next() while there are rows. It must not outlive its connection.
class Statement {
 public:
  Statement() = default;
  explicit Statement(std::unique_ptr<StatementBody> body) : body_(std::move(body)) {}

  /// Binds `values` to ?1, ?2, ... and runs to the first row. True: there is one.
  /// Errors: overloaded (locked for too long, or the database is away: try again later); no_space; io_error (the
  /// database's own words); those of Transaction::begin.
  template <class... Values>
  Outcome<bool> first(const Values&... values) {
    body_->rewind();
    int index = 0;
    (bind(++index, values), ...);
    return body_->step();
  }
  /// The same for a number of values that is known at run time only.
  Outcome<bool> first_of(const std::vector<std::variant<std::string, std::int64_t>>& values) {
    body_->rewind();
    int index = 0;
    for (const auto& value : values) {
      std::visit([&](const auto& bound) { bind(++index, bound); }, value);
    }
    return body_->step();
  }
  Outcome<bool> next() { return body_->step(); }
  /// Gives back what an unfinished statement holds: the read lock, the rows.
  void rewind() { body_->rewind(); }

  std::string text(int column) const { return body_->text(column); }
  std::int64_t integer(int column) const { return body_->integer(column); }

 private:
  void bind(int index, std::string_view value) { body_->bind(index, value); }
  void bind(int index, std::int64_t value) { body_->bind(index, value); }
  std::unique_ptr<StatementBody> body_;
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// Runs one or several statements without values.
  virtual Outcome<void> run(const std::string& sql) = 0;
  virtual Outcome<Statement> prepare(std::string_view sql) = 0;
  virtual std::int64_t changed_rows() const = 0;  // of the last statement

  // Used through Transaction.
  virtual Outcome<void> begin() = 0;
  virtual Outcome<void> commit() = 0;
  virtual void roll_back() = 0;
};

/// begin … commit; rolled back when the object goes without commit().
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (open_) connection_->roll_back();
  }
  /// Takes the write lock at once, so that a read inside sees what the write will meet.
  /// Errors: overloaded; shutting_down (another central has taken over: nothing may be written any more).
  Outcome<void> begin() {
    BOOST_OUTCOME_TRY(connection_->begin());
    open_ = true;
    return done();
  }
  Outcome<void> commit() {
    BOOST_OUTCOME_TRY(connection_->commit());
    open_ = false;
    return done();
  }

 private:
  Connection* connection_;
  bool open_ = false;
};

}  // namespace gearbox::sql
