// pg_link.hpp: one connection to a PostgreSQL server. Nothing here waits longer than the deadline that it is given,
// with one exception: libpq resolves a host's name in the system's own time (an address does not wait; pg_opening.hpp
// does it elsewhere).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

struct pg_conn;
struct pg_result;

namespace gearbox::sql {

/// The rows of one answer.
class PgRows {
 public:
  PgRows() = default;
  explicit PgRows(pg_result* result) : result_(result) {}
  int count() const;
  std::string text(int row, int column) const;  // NULL: empty
  std::int64_t integer(int row, int column) const;
  std::int64_t changed() const;  // rows that the statement has changed

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

/// A value for $1, $2 ...
struct PgValue {
  bool is_number = false;
  std::string text;
};

/// One thread at a time.
class PgLink {
 public:
  /// `connection`: libpq's words or URL. `set_up`: statements without values that each new connection begins with.
  PgLink(std::string connection, std::string set_up);
  PgLink(const PgLink&) = delete;
  PgLink& operator=(const PgLink&) = delete;
  ~PgLink();

  /// Begins to connect, or goes on with it. True: it is open. False: not yet; call again.
  /// Errors: overloaded, with libpq's reason; the next call begins anew.
  Outcome<bool> connect(Instant deadline);
  /// Notices, without waiting, that the server has ended the connection.
  bool is_open();
  void close();
  /// Of an open one, to wait for its end; else -1.
  int socket() const;

  /// Runs one statement; without values it may be several, of which the last one's answer counts.
  /// Errors: overloaded (no answer before `deadline`, or the connection is lost: it is closed then; or the server wants
  /// to be asked later); no_space; io_error. Whether what was sent has been carried out is not known when it is closed.
  Outcome<PgRows> run(const std::string& sql, const std::vector<PgValue>& values, Instant deadline);

 private:
  enum class State { closed, connecting, setting_up, open };
  Outcome<PgRows> answer(Instant deadline);
  Outcome<bool> gather(Instant deadline);  // true: the answer is whole, false: there is more to come
  Outcome<PgRows> gathered();
  Outcome<bool> still_connecting();
  Error lost(const std::string& reason);

  std::string connection_, set_up_;
  pg_conn* handle_ = nullptr;
  State state_ = State::closed;
  short wanted_ = 0;      // what poll() is to wait for while connecting
  Instant moved_{};       // when connecting last came a step forward
  std::size_t turn_ = 0;  // raised when a server falls silent: the next one of several is asked first then
  PgRows last_;           // of the answer that is being gathered
  std::optional<Error> failed_;
};

}  // namespace gearbox::sql
