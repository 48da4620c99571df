#include "sql/pg_link.hpp"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "sql/server_turn.hpp"

namespace gearbox::sql {

namespace {

// Without a step forward a try is given up, however often it is gone on with.
constexpr milliseconds kConnectWithin{5'000};
constexpr Oid kText = 25;    // as in the server's pg_type
constexpr Oid kNumber = 20;  // of 64 bits

std::string one_line(const char* text) {
  std::string line;
  for (const char letter : std::string_view(text == nullptr ? "" : text)) {
    const bool blank = letter == ' ' || letter == '\n' || letter == '\t';
    if (!blank) {
      line += letter;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

/// Until something of `wanted` can be done on `socket`; false at the deadline.
bool ready(int socket, short wanted, Instant deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd asked{socket, wanted, 0};
    const int found = ::poll(&asked, 1, static_cast<int>(std::max(milliseconds{0}, left).count()));
    if (found > 0) return true;
    if (found == 0 && left <= milliseconds{0}) return false;
    if (found < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
  }
}

/// By the five characters that the SQL standard has for it.
Error error_of(const PGresult* result) {
  const char* const field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view state = field == nullptr ? "" : field;
  const std::string detail = "database: " + one_line(PQresultErrorMessage(result));
  if (state == "53100") return Error{Errc::no_space, detail};
  // 08 connection, 40 serialization, 53 resources, 55P03 lock not given in time, 57 cancelled or shutting down.
  for (const std::string_view later : {"08", "40", "53", "55P03", "57"}) {
    if (state.starts_with(later)) return Error{Errc::overloaded, detail};
  }
  return Error{Errc::io_error, detail};
}

}  // namespace

void PgRows::Clear::operator()(pg_result* result) const {
  PQclear(result);
}

int PgRows::count() const {
  return PQntuples(result_.get());
}

std::string PgRows::text(int row, int column) const {
  return std::string(PQgetvalue(result_.get(), row, column),
                     static_cast<std::size_t>(PQgetlength(result_.get(), row, column)));
}

std::int64_t PgRows::integer(int row, int column) const {
  return std::strtoll(PQgetvalue(result_.get(), row, column), nullptr, 10);
}

std::int64_t PgRows::changed() const {
  return std::strtoll(PQcmdTuples(result_.get()), nullptr, 10);
}

PgLink::PgLink(std::string connection, std::string set_up)
    : connection_(std::move(connection)), set_up_(std::move(set_up)) {}

PgLink::~PgLink() {
  close();
}

void PgLink::close() {
  if (handle_ != nullptr) PQfinish(handle_);
  handle_ = nullptr;
  state_ = State::closed;
  last_ = PgRows();
  failed_.reset();
}

int PgLink::socket() const {
  return handle_ == nullptr ? -1 : PQsocket(handle_);
}

Error PgLink::lost(const std::string& reason) {
  close();
  return Error{Errc::overloaded, "the database is away (" + reason + "): try again later"};
}

Outcome<bool> PgLink::connect(Instant deadline) {
  if (state_ == State::open) return true;
  if (state_ == State::closed) {
    // Words in front of the user's own are defaults, those behind them are not to be changed. A dead network is noticed
    // within seconds; of several servers the one that takes writes is meant.
    std::vector<const char*> words = {"application_name", "keepalives_idle",  "keepalives_interval",
                                      "keepalives_count", "tcp_user_timeout", "target_session_attrs",
                                      "dbname",           "client_encoding"};
    std::vector<const char*> values = {"gearbox", "2", "1", "3", "4000", "read-write", connection_.c_str(), "UTF8"};
    const auto servers = turned_servers(connection_, turn_);
    for (const auto& [word, value] : servers) {
      words.push_back(word.c_str());
      values.push_back(value.c_str());
    }
    words.push_back(nullptr);
    values.push_back(nullptr);
    handle_ = PQconnectStartParams(words.data(), values.data(), 1);
    moved_ = Clock::now();
    if (handle_ == nullptr) return lost("no memory");
    // libpq's own prints to stderr; a connection that ends says why when it is used.
    PQsetNoticeProcessor(
        handle_, [](void*, const char*) {}, nullptr);
    if (PQstatus(handle_) == CONNECTION_BAD) return lost(one_line(PQerrorMessage(handle_)));
    state_ = State::connecting;
    wanted_ = POLLOUT;
    if (Clock::now() >= deadline) return false;  // resolving a name has taken the time of this call
  }
  while (state_ == State::connecting) {
    if (!ready(PQsocket(handle_), wanted_, deadline)) return still_connecting();
    moved_ = Clock::now();
    switch (PQconnectPoll(handle_)) {
      case PGRES_POLLING_READING:
        wanted_ = POLLIN;
        break;
      case PGRES_POLLING_WRITING:
        wanted_ = POLLOUT;
        break;
      case PGRES_POLLING_OK:
        if (PQsetnonblocking(handle_, 1) != 0 || PQsendQuery(handle_, set_up_.c_str()) == 0) {
          return lost(one_line(PQerrorMessage(handle_)));
        }
        state_ = State::setting_up;
        break;
      default:
        return lost(one_line(PQerrorMessage(handle_)));
    }
  }
  // Its answer may come in a later call, as those before it: a network's way there and back may take longer than a
  // call.
  Outcome<bool> whole = gather(deadline);
  if (whole && !whole.value()) return still_connecting();
  const Outcome<PgRows> set = whole ? gathered() : Outcome<PgRows>(whole.error());
  if (!set) {
    const Error reason = set.error();
    close();
    return reason;
  }
  state_ = State::open;
  return true;
}

Outcome<bool> PgLink::still_connecting() {
  if (Clock::now() - moved_ < kConnectWithin) return false;
  ++turn_;  // of several servers libpq would ask the same one again
  return lost("it did not take the connection within " + std::to_string(kConnectWithin.count()) + " ms");
}

bool PgLink::is_open() {
  if (state_ != State::open) return false;
  // The server's last words come before the end itself.
  while (ready(PQsocket(handle_), POLLIN, Clock::now())) {
    if (PQconsumeInput(handle_) == 1 && PQstatus(handle_) == CONNECTION_OK) continue;
    close();
    return false;
  }
  return true;
}

Outcome<PgRows> PgLink::run(const std::string& sql, const std::vector<PgValue>& values, Instant deadline) {
  if (state_ != State::open) return lost("not connected");
  int sent = 0;
  if (values.empty()) {
    sent = PQsendQuery(handle_, sql.c_str());
  } else {
    std::vector<Oid> types;
    std::vector<const char*> texts;
    for (const PgValue& value : values) {
      types.push_back(value.is_number ? kNumber : kText);
      texts.push_back(value.text.c_str());
    }
    sent = PQsendQueryParams(handle_, sql.c_str(), static_cast<int>(values.size()), types.data(), texts.data(), nullptr,
                             nullptr, 0);
  }
  if (sent == 0) return lost(one_line(PQerrorMessage(handle_)));
  return answer(deadline);
}

Outcome<PgRows> PgLink::answer(Instant deadline) {
  BOOST_OUTCOME_TRY(const bool whole, gather(deadline));
  if (!whole) return lost("no answer in time");
  return gathered();
}

Outcome<bool> PgLink::gather(Instant deadline) {
  for (;;) {
    for (;;) {
      const int unsent = PQflush(handle_);
      if (unsent < 0) return lost(one_line(PQerrorMessage(handle_)));
      if (unsent == 0 && PQisBusy(handle_) == 0) break;
      if (!ready(PQsocket(handle_), static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), deadline)) return false;
      if (PQconsumeInput(handle_) == 0) return lost(one_line(PQerrorMessage(handle_)));
    }
    PGresult* const result = PQgetResult(handle_);
    if (result == nullptr) return true;
    PgRows rows(result);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      last_ = std::move(rows);
    } else if (!failed_) {
      failed_ = error_of(result);
    }
  }
}

Outcome<PgRows> PgLink::gathered() {
  PgRows last = std::exchange(last_, PgRows());
  const std::optional<Error> failed = std::exchange(failed_, std::nullopt);
  if (PQstatus(handle_) != CONNECTION_OK) return lost(failed ? failed->detail : one_line(PQerrorMessage(handle_)));
  if (failed) return *failed;
  return last;
}

}  // namespace gearbox::sql
