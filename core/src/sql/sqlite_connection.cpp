#include "sql/sqlite_connection.hpp"

#include <optional>
#include <utility>

namespace gearbox::sql {

namespace {

class SqliteStatement : public StatementBody {
 public:
  explicit SqliteStatement(sqlite::Statement statement) : statement_(std::move(statement)) {}
  void rewind() override { statement_.rewind(); }
  void bind(int index, std::string_view value) override { statement_.bind(index, value); }
  void bind(int index, std::int64_t value) override { statement_.bind(index, value); }
  Outcome<bool> step() override { return statement_.next(); }
  std::string text(int column) const override { return statement_.text(column); }
  std::int64_t integer(int column) const override { return statement_.integer(column); }

 private:
  sqlite::Statement statement_;
};

class SqliteConnection : public Connection {
 public:
  explicit SqliteConnection(sqlite::Database database) : database_(std::move(database)) {}

  Outcome<void> run(const std::string& sql) override { return database_.run(sql); }
  Outcome<Statement> prepare(std::string_view sql) override {
    BOOST_OUTCOME_TRY(auto statement, database_.prepare(sql));
    return Statement(std::make_unique<SqliteStatement>(std::move(statement)));
  }
  std::int64_t changed_rows() const override { return database_.changed_rows(); }

  Outcome<void> begin() override {
    transaction_.emplace(database_);
    Outcome<void> begun = transaction_->begin();
    if (!begun) transaction_.reset();
    return begun;
  }
  Outcome<void> commit() override {
    BOOST_OUTCOME_TRY(transaction_->commit());
    transaction_.reset();
    return done();
  }
  void roll_back() override { transaction_.reset(); }

 private:
  sqlite::Database database_;
  std::optional<sqlite::Database::Transaction> transaction_;
};

}  // namespace

std::unique_ptr<Connection> connection_to(sqlite::Database database) {
  return std::make_unique<SqliteConnection>(std::move(database));
}

}  // namespace gearbox::sql
