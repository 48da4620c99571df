#include "sql/postgres_connection.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sql/pg_link.hpp"
#include "sql/pg_opening.hpp"

namespace gearbox::sql {

namespace {

/// "?3" becomes "$3". No statement has a question mark of its own.
std::string with_dollars(std::string_view sql) {
  std::string out(sql);
  std::replace(out.begin(), out.end(), '?', '$');
  return out;
}

class PostgresConnection : public Connection {
 public:
  explicit PostgresConnection(PostgresSettings settings)
      : settings_(std::move(settings)), link_(std::make_unique<PgLink>(settings_.connection, settings_.set_up)) {
    if (settings_.connects_on_a_thread) opening_.emplace(settings_.connection, settings_.set_up);
  }

  Outcome<void> run(const std::string& sql) override {
    BOOST_OUTCOME_TRY(ask(sql, {}));
    return done();
  }
  Outcome<Statement> prepare(std::string_view sql) override;
  std::int64_t changed_rows() const override { return changed_; }

  Outcome<PgRows> ask(const std::string& sql, const std::vector<PgValue>& values) {
    BOOST_OUTCOME_TRY(be_connected());
    Outcome<PgRows> rows = link_->run(sql, values, after(Clock::now(), settings_.statement_within));
    if (!rows) return failed(rows.error());
    changed_ = rows.value().changed();
    return rows;
  }

  Outcome<void> begin() override {
    const Outcome<PgRows> begun = ask("BEGIN;" + settings_.begin, {});
    inside_ = true;
    if (begun && changed_ == 1) return done();
    roll_back();
    if (!begun) return begun.error();
    return Error{Errc::shutting_down, "another central has taken over: this one writes nothing any more"};
  }
  Outcome<void> commit() override {
    Outcome<PgRows> ended = ask("COMMIT", {});
    if (!ended) return ended.error();
    inside_ = false;
    return done();
  }
  void roll_back() override {
    // What cannot be rolled back in order ends with its connection.
    const bool alive = std::exchange(inside_, false) && link_->is_open();
    if (!alive || !link_->run("ROLLBACK", {}, after(Clock::now(), settings_.statement_within))) link_->close();
  }

 private:
  /// What the caller is told.
  Error failed(Error error) {
    if (settings_.tell) {
      settings_.tell(error);
      error.detail = error.code == Errc::overloaded ? "the database does not answer now: try again later"
                                                    : "the database did not do it: central's log says why";
    }
    if (link_->socket() < 0) {
      reason_ = error.detail;
      next_try_ = after(Clock::now(), settings_.pause);
    }
    return error;
  }

  Outcome<void> be_connected() {
    if (link_->is_open()) return done();
    if (inside_) return Error{Errc::overloaded, "the database went away in the middle of a change: try again later"};
    const Instant now = Clock::now();
    if (now < next_try_ && !(opening_ && opening_->has_ended())) return Error{Errc::overloaded, reason_};
    const Outcome<bool> connected = connect(after(now, settings_.connect_within));
    if (connected && connected.value()) return done();
    // Still under way counts as away, too, until the next try.
    const Error told =
        failed(connected ? Error{Errc::overloaded, "the database is away (it does not answer yet): try again later"}
                         : connected.error());
    reason_ = told.detail;
    next_try_ = after(Clock::now(), settings_.pause);
    return told;
  }

  Outcome<bool> connect(Instant deadline) {
    if (!opening_) return link_->connect(deadline);
    BOOST_OUTCOME_TRY(auto made, opening_->take(deadline));
    if (!made) return false;
    link_ = std::move(made);
    return true;
  }

  PostgresSettings settings_;
  std::unique_ptr<PgLink> link_;
  std::optional<PgOpening> opening_;  // when connections are made on a thread
  std::int64_t changed_ = 0;
  bool inside_ = false;  // of a transaction
  Instant next_try_{};
  std::string reason_;  // why it is away
};

class PostgresStatement : public StatementBody {
 public:
  PostgresStatement(PostgresConnection& connection, std::string sql) : connection_(connection), sql_(std::move(sql)) {}

  void rewind() override {
    values_.clear();
    rows_ = PgRows();
    row_ = -1;
  }
  void bind(int, std::string_view value) override {
    PgValue bound{false, std::string(value)};
    // The server's texts have no zero byte; only what a device answers to a command could have one.
    std::replace(bound.text.begin(), bound.text.end(), '\0', ' ');
    values_.push_back(std::move(bound));
  }
  void bind(int, std::int64_t value) override { values_.push_back({true, std::to_string(value)}); }

  Outcome<bool> step() override {
    if (row_ < 0) {
      BOOST_OUTCOME_TRY(rows_, connection_.ask(sql_, values_));
    }
    return ++row_ < rows_.count();
  }
  std::string text(int column) const override { return rows_.text(row_, column); }
  std::int64_t integer(int column) const override { return rows_.integer(row_, column); }

 private:
  PostgresConnection& connection_;
  std::string sql_;
  std::vector<PgValue> values_;
  PgRows rows_;
  int row_ = -1;
};

Outcome<Statement> PostgresConnection::prepare(std::string_view sql) {
  // Not prepared at the server: a connection that is made anew has nothing to make up for.
  return Statement(std::make_unique<PostgresStatement>(*this, with_dollars(sql)));
}

}  // namespace

std::unique_ptr<Connection> connection_to(PostgresSettings settings) {
  return std::make_unique<PostgresConnection>(std::move(settings));
}

}  // namespace gearbox::sql
