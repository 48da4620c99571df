#include "central/database_lock.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "central/accounts_database.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "sql/pg_link.hpp"

namespace gearbox::central {

namespace {

constexpr milliseconds kTakeWithin{2'000};    // for each of its statements
constexpr milliseconds kLook{500};            // between two questions whether the session lives
constexpr milliseconds kAnswerWithin{2'000};  // then it counts as gone

constexpr const char* kTryLock = "SELECT pg_try_advisory_lock(1734697330, 1)::int";  // the numbers: this project's own

/// Public halves, hexadecimal.
struct CentralKeys {
  std::string channel, signing;
  bool operator==(const CentralKeys&) const = default;
};

Outcome<CentralKeys> own_keys(const config::StateDir& state, bool make) {
  std::error_code ignored;  // a file that cannot be looked at fails below, with its reason
  const bool there = std::filesystem::exists(state.central_channel_key(), ignored) ||
                     std::filesystem::exists(state.central_signing_key(), ignored);
  if (!there && !make) return CentralKeys{};
  BOOST_OUTCOME_TRY(const auto channel, link::load_or_make_channel_keys(state.central_channel_key()));
  BOOST_OUTCOME_TRY(const auto signing, link::load_or_make_signing_keys(state.central_signing_key()));
  return CentralKeys{to_hex(channel.public_key), to_text(signing.public_key)};
}

}  // namespace

struct DatabaseLock::State {
  State(AccountsPlace given, config::StateDir folder)
      : place(std::move(given)), host(std::move(folder)), link(place.database, database_set_up()) {}

  AccountsPlace place;
  config::StateDir host;
  sql::PgLink link;
  bool made = false;  // the tables are there
  std::int64_t term = 0;
  int stop = -1;  // an eventfd
  std::function<void(std::string)> lost;
  std::thread watcher;

  Outcome<sql::PgRows> ask(const std::string& sql, const std::vector<sql::PgValue>& values = {}) {
    return link.run(sql, values, after(Clock::now(), kTakeWithin));
  }

  /// Before the lock: one with other keys is told at its start, not in the hour of need.
  Outcome<void> check_keys() {
    BOOST_OUTCOME_TRY(const auto rows, ask("SELECT channel_key, signing_key, installation FROM gearbox.central"));
    if (rows.count() != 1) return Error{Errc::corrupt_data, "the table gearbox.central has no row"};
    BOOST_OUTCOME_TRY(check_installation(place, rows.text(0, 2)));
    place.installation = rows.text(0, 2);
    const CentralKeys all{rows.text(0, 0), rows.text(0, 1)};
    if (all == CentralKeys{}) return done();
    BOOST_OUTCOME_TRY(const CentralKeys own, own_keys(host, false));
    if (all == own) return done();
    return Error{
        Errc::wrong_server_key,
        "the centrals of this database have the channel key " + all.channel + " and the signing key " + all.signing +
            ", this host " + (own == CentralKeys{} ? "has none yet" : "has " + own.channel + " and " + own.signing) +
            ": copy keys/central.channel and keys/central.signing from the state folder of a central that has them"};
  }

  /// Behind the lock.
  Outcome<std::int64_t> raise_term() {
    BOOST_OUTCOME_TRY(const CentralKeys own, own_keys(host, true));
    BOOST_OUTCOME_TRY(
        const auto raised,
        ask("UPDATE gearbox.central SET term = term + 1, changes = changes + 1, channel_key = $1, signing_key = "
            "$2 WHERE channel_key = '' OR (channel_key = $1 AND signing_key = $2) RETURNING term",
            {{false, own.channel}, {false, own.signing}}));
    if (raised.count() == 1) return raised.integer(0, 0);
    return Error{Errc::overloaded, "the keys of this database's centrals have just been put down by another one"};
  }

  void look() {
    for (;;) {
      std::array<pollfd, 2> asked = {pollfd{stop, POLLIN, 0}, pollfd{link.socket(), POLLIN, 0}};
      const int found = ::poll(asked.data(), asked.size(), static_cast<int>(kLook.count()));
      if (found < 0 && errno == EINTR) continue;
      if (asked[0].revents != 0) return;
      const Outcome<sql::PgRows> rows =
          link.is_open() ? link.run("SELECT term FROM gearbox.central", {}, after(Clock::now(), kAnswerWithin))
                         : Outcome<sql::PgRows>(Error{Errc::overloaded, "the connection was ended"});
      if (rows && rows.value().count() == 1 && rows.value().integer(0, 0) == term) continue;
      return lost(rows ? "another central has taken over" : rows.error().detail);
    }
  }
};

DatabaseLock::DatabaseLock(AccountsPlace place, config::StateDir state)
    : state_(std::make_unique<State>(std::move(place), std::move(state))) {}

DatabaseLock::~DatabaseLock() {
  if (state_->watcher.joinable()) {
    ::eventfd_write(state_->stop, 1);
    state_->watcher.join();
  }
  if (state_->stop >= 0) ::close(state_->stop);
}

Outcome<bool> DatabaseLock::take() {
  State& state = *state_;
  if (!state.made) {
    BOOST_OUTCOME_TRY(open_accounts_database(state.place));
    state.made = true;
  }
  if (!state.link.is_open()) {
    BOOST_OUTCOME_TRY(const bool connected, state.link.connect(after(Clock::now(), kTakeWithin)));
    if (!connected) return Error{Errc::overloaded, "the database is away (it does not answer yet)"};
  }
  BOOST_OUTCOME_TRY(state.check_keys());
  BOOST_OUTCOME_TRY(const auto locked, state.ask(kTryLock));
  if (locked.integer(0, 0) == 0) return false;
  const Outcome<std::int64_t> term = state.raise_term();
  if (!term) {
    state.link.close();  // which gives the lock back: half taken it would keep all others out
    return term.error();
  }
  state.term = term.value();
  return true;
}

std::int64_t DatabaseLock::term() const {
  return state_->term;
}

const std::string& DatabaseLock::installation() const {
  return state_->place.installation;
}

void DatabaseLock::watch(std::function<void(std::string)> lost) {
  state_->lost = std::move(lost);
  state_->stop = ::eventfd(0, EFD_CLOEXEC);
  state_->watcher = std::thread([state = state_.get()] { state->look(); });
}

}  // namespace gearbox::central
