// Who leads on a shared database, how it learns that it does not any more, and that nothing is written after that.
#include "central/database_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "central/accounts.hpp"
#include "central/accounts_database.hpp"
#include "gearbox/link/keys.hpp"
#include "kinds.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

namespace fs = std::filesystem;
using test::as_administrator;
using test::Kind;

constexpr const char* kPassword = "correct horse";
constexpr const char* kCutLock =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted";

/// Errc{}: it went well.
template <class T>
Errc code_of(const Outcome<T>& outcome) {
  return outcome ? Errc{} : outcome.error().code;
}

/// What a watched lock told, once.
class Told {
 public:
  std::function<void(std::string)> teller() {
    return [this](std::string reason) {
      const std::lock_guard lock(mutex_);
      reason_ = std::move(reason);
      changed_.notify_all();
    };
  }
  std::optional<std::string> within(milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return reason_.has_value(); });
    return reason_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> reason_;
};

class PostgresLock : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string missing;
    place_ = test::empty_place(Kind::postgres, folder_.path(), missing);
    if (!missing.empty()) GTEST_SKIP() << missing;
    one_ = host("one");
    other_ = host("other");
    copy_keys();
  }
  config::StateDir host(const std::string& name) {
    config::StateDir state{folder_.path() / name};
    fs::create_directories(state.keys());
    for (const fs::path& path : {state.root, state.keys()}) fs::permissions(path, fs::perms::owner_all);
    return state;
  }
  void copy_keys() {
    ASSERT_TRUE(link::load_or_make_channel_keys(one_.central_channel_key()));
    ASSERT_TRUE(link::load_or_make_signing_keys(one_.central_signing_key()));
    fs::copy(one_.keys(), other_.keys(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  static bool takes(DatabaseLock& lock) {
    const auto taken = lock.take();
    EXPECT_TRUE(taken) << taken.error().detail;
    return taken && taken.value();
  }
  AccountsPlace of_term(std::int64_t term) const {
    AccountsPlace place = place_;
    place.term = term;
    return place;
  }
  static Outcome<void> add(Accounts& accounts, const std::string& name) {
    return accounts.add_node(name, link::make_signing_keys().public_key);
  }

  gearbox::testing::TempDir folder_;
  AccountsPlace place_;
  config::StateDir one_, other_;
};

TEST_F(PostgresLock, OneHasItUntilItEndsAndTheNextHasALaterTerm) {
  std::optional<DatabaseLock> first(std::in_place, place_, one_);
  DatabaseLock second(place_, other_);
  EXPECT_TRUE(takes(*first));
  EXPECT_FALSE(takes(second));
  EXPECT_FALSE(takes(second));
  const std::int64_t term = first->term();
  EXPECT_GT(term, 0);
  first.reset();
  const Instant deadline = after(Clock::now(), seconds{20});  // the server needs a moment to see that it has gone
  bool ours = false;
  while (!ours && Clock::now() < deadline) ours = takes(second);
  EXPECT_TRUE(ours);
  EXPECT_EQ(second.term(), term + 1);
}

TEST_F(PostgresLock, ItsHolderHearsNothingWhileAllIsWell) {
  Told told;
  DatabaseLock lock(place_, one_);
  ASSERT_TRUE(takes(lock));
  lock.watch(told.teller());
  EXPECT_FALSE(told.within(milliseconds{1'200}));
}

TEST_F(PostgresLock, ItsHolderHearsAtOnceThatItsConnectionIsCut) {
  constexpr int kTimes = 8;
  auto together = Clock::duration::zero();
  for (int i = 0; i < kTimes; ++i) {
    Told told;
    DatabaseLock lock(place_, one_);
    ASSERT_TRUE(takes(lock));
    lock.watch(told.teller());
    const Instant cut = Clock::now();
    ASSERT_EQ(as_administrator(kCutLock), "1");
    EXPECT_TRUE(told.within(milliseconds{10'000}));
    together += Clock::now() - cut;
  }
  EXPECT_LT(together, milliseconds{1'200}) << "the next look would come after 250 ms on average, 2,000 ms together";
}

TEST_F(PostgresLock, ItsHolderHearsThatTheServerHasStopped) {
  Told told;
  DatabaseLock lock(place_, one_);
  ASSERT_TRUE(takes(lock));
  lock.watch(told.teller());
  gearbox::testing::PostgresServer::get().stop();
  EXPECT_TRUE(told.within(milliseconds{10'000}));
  DatabaseLock other(place_, other_);
  const auto away = other.take();
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code, Errc::overloaded) << away.error().detail;
  gearbox::testing::PostgresServer::get().restart();
  EXPECT_TRUE(takes(other));
}

TEST_F(PostgresLock, ItsHolderHearsThatTheServerDoesNotAnswer) {
  Told told;
  DatabaseLock lock(place_, one_);
  ASSERT_TRUE(takes(lock));
  const int session = std::stoi(as_administrator("SELECT pid FROM pg_locks WHERE locktype = 'advisory'"));
  lock.watch(told.teller());
  ::kill(session, SIGSTOP);
  const auto reason = told.within(milliseconds{10'000});
  ::kill(session, SIGCONT);
  ASSERT_TRUE(reason);
  EXPECT_NE(reason->find("no answer"), std::string::npos) << *reason;
}

TEST_F(PostgresLock, WhatAnEarlierTermStillWritesIsRefused) {
  DatabaseLock first(place_, one_);
  ASSERT_TRUE(takes(first));
  auto former = Accounts::open(of_term(first.term()), OnDamage::refuse);
  ASSERT_TRUE(former);
  ASSERT_TRUE(add(*former.value(), "barn"));
  ASSERT_EQ(as_administrator(kCutLock), "1");
  DatabaseLock second(place_, other_);
  ASSERT_TRUE(takes(second));
  // Each kind of write, since each begins its own transaction.
  Accounts& late = *former.value();
  const PublicKey key = link::make_signing_keys().public_key;
  User maria;
  maria.name = "maria";
  EXPECT_EQ(code_of(add(late, "stable")), Errc::shutting_down);
  EXPECT_EQ(code_of(late.remove_node("barn")), Errc::shutting_down);
  EXPECT_EQ(code_of(late.add_user(maria, kPassword)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.set_disabled("maria", true)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.set_limits("maria", {})), Errc::shutting_down);
  EXPECT_EQ(code_of(late.remove_user("maria")), Errc::shutting_down);
  EXPECT_EQ(code_of(late.enrol("maria", "cam", key)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.revoke_device(key)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.saw_devices({{key, {}}})), Errc::shutting_down);
  EXPECT_EQ(code_of(late.add_command(key, {"status"}, 1)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.command_sent(key, 1, 1)), Errc::shutting_down);
  EXPECT_EQ(code_of(late.command_answered(key, {1, true, "x"}, 1)), Errc::shutting_down);
  EXPECT_EQ(late.nodes().value().size(), 1U) << "reading is no harm";
  auto now = Accounts::open(of_term(second.term()), OnDamage::refuse);
  ASSERT_TRUE(now);
  EXPECT_TRUE(add(*now.value(), "stable"));
  auto command_line = Accounts::open(place_, OnDamage::refuse);
  ASSERT_TRUE(command_line);
  EXPECT_TRUE(add(*command_line.value(), "meadow")) << "people may always write";
}

TEST_F(PostgresLock, OneWithOtherKeysIsRefusedAndOneWithoutMakesNoneOfItsOwn) {
  {
    DatabaseLock first(place_, one_);
    ASSERT_TRUE(takes(first));
  }
  const config::StateDir stranger = host("stranger");
  DatabaseLock without(place_, stranger);
  auto refused = without.take();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_server_key);
  EXPECT_NE(refused.error().detail.find("has none yet"), std::string::npos) << refused.error().detail;
  EXPECT_FALSE(fs::exists(stranger.central_channel_key()));
  ASSERT_TRUE(link::load_or_make_channel_keys(stranger.central_channel_key()));
  ASSERT_TRUE(link::load_or_make_signing_keys(stranger.central_signing_key()));
  refused = without.take();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_server_key);
  EXPECT_NE(refused.error().detail.find("copy keys/central.channel"), std::string::npos) << refused.error().detail;
}

TEST_F(PostgresLock, MissingRightsAreToldAsWhatTheyAre) {
  ASSERT_TRUE(Accounts::open(place_, OnDamage::refuse));
  as_administrator("DROP ROLE IF EXISTS guest");
  as_administrator("CREATE ROLE guest LOGIN");
  AccountsPlace place = place_;
  place.database += " user=guest";  // the last one counts
  DatabaseLock guest(place, one_);
  const auto refused = guest.take();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::io_error);
  EXPECT_NE(refused.error().detail.find("permission denied for schema gearbox"), std::string::npos)
      << refused.error().detail;
}

TEST_F(PostgresLock, AnEmptyDatabaseThatHadAccountsIsNotTakenAsNew) {
  AccountsPlace known = place_;
  {
    DatabaseLock lock(place_, one_);
    ASSERT_TRUE(takes(lock));
    known.installation = lock.installation();
  }
  EXPECT_EQ(known.installation.size(), 32U);
  EXPECT_TRUE(Accounts::open(known, OnDamage::refuse));
  as_administrator("DROP SCHEMA gearbox CASCADE");
  const auto lost = Accounts::open(known, OnDamage::refuse);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::bad_config);
  EXPECT_NE(lost.error().detail.find("restore them from a copy"), std::string::npos) << lost.error().detail;
  EXPECT_EQ(as_administrator("SELECT count(*) FROM pg_namespace WHERE nspname = 'gearbox'"), "0");
  ASSERT_TRUE(Accounts::open(place_, OnDamage::refuse)) << "to somebody who knows none it is new";
  DatabaseLock lock(known, one_);
  const auto other = lock.take();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::bad_config);
  EXPECT_NE(other.error().detail.find("another installation"), std::string::npos) << other.error().detail;
}

TEST_F(PostgresLock, ADatabaseOfAnOlderGearboxGetsAnInstallationOnceAndForAll) {
  ASSERT_TRUE(Accounts::open(place_, OnDamage::refuse));
  as_administrator("ALTER TABLE central DROP COLUMN installation; UPDATE central SET schema = 5");
  std::string first;
  for (int i = 0; i < 2; ++i) {
    DatabaseLock lock(place_, one_);
    ASSERT_TRUE(lock.take()) << "its lock may still be another session's";
    EXPECT_EQ(lock.installation().size(), 32U);
    if (i > 0) {
      EXPECT_EQ(lock.installation(), first);
    }
    first = lock.installation();
  }
}

TEST_F(PostgresLock, EachSessionOfALostHostEndsAtTheServer) {
  for (const char* setting : {"SET tcp_keepalives_idle TO 3", "SET tcp_keepalives_interval TO 1",
                              "SET tcp_keepalives_count TO 3", "SET tcp_user_timeout TO 6000"}) {
    EXPECT_NE(database_set_up().find(setting), std::string::npos) << setting;  // a socket that is none of TCP tells 0
  }
}

TEST_F(PostgresLock, AReaderIsToldSoonThatTheDatabaseIsAwayAndComesBackByItself) {
  AccountsPlace place = place_;
  place.on_loop = true;
  auto accounts = Accounts::open(place, OnDamage::refuse);
  ASSERT_TRUE(accounts);
  ASSERT_TRUE(accounts.value()->version());
  gearbox::testing::PostgresServer::get().stop();
  const Instant begun = Clock::now();
  for (int i = 0; i < 100; ++i) {
    const auto away = accounts.value()->version();
    ASSERT_FALSE(away);
    EXPECT_EQ(away.error().code, Errc::overloaded) << away.error().detail;
  }
  EXPECT_LT(Clock::now() - begun, milliseconds{1'000}) << "a hundred devices that ask meanwhile cost the loop little";
  gearbox::testing::PostgresServer::get().restart();
  const Instant deadline = after(Clock::now(), seconds{20});
  while (!accounts.value()->version() && Clock::now() < deadline) {
  }
  EXPECT_TRUE(accounts.value()->version());
}

TEST_F(PostgresLock, AReaderDoesNotWaitLongForADatabaseThatStandsStill) {
  AccountsPlace place = place_;
  place.on_loop = true;
  auto accounts = Accounts::open(place, OnDamage::refuse);
  ASSERT_TRUE(accounts);
  ASSERT_TRUE(accounts.value()->version());
  const int session = std::stoi(
      as_administrator("SELECT pid FROM pg_stat_activity WHERE query = 'SELECT changes FROM gearbox.central'"));
  ::kill(session, SIGSTOP);
  const Instant begun = Clock::now();
  const auto away = accounts.value()->version();
  const auto took = Clock::now() - begun;
  ::kill(session, SIGCONT);
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code, Errc::overloaded);
  EXPECT_LT(took, milliseconds{2'500});
}

TEST_F(PostgresLock, AWriterThatIsHeldUpGivesUpSoonAndLeavesNothing) {
  auto accounts = Accounts::open(place_, OnDamage::refuse);
  ASSERT_TRUE(accounts);
  // Another one that has locked the row, and stands still.
  sql::PgLink writer(place_.database, "SET search_path TO gearbox");
  const Instant deadline = after(Clock::now(), seconds{20});
  ASSERT_TRUE(writer.connect(deadline));
  ASSERT_TRUE(writer.run("BEGIN; UPDATE central SET changes = changes + 1", {}, deadline));
  const Instant begun = Clock::now();
  const auto late = add(*accounts.value(), "barn");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::overloaded) << late.error().detail;
  EXPECT_LT(Clock::now() - begun, milliseconds{4'000});
  ASSERT_TRUE(writer.run("ROLLBACK", {}, deadline));
  EXPECT_TRUE(accounts.value()->nodes().value().empty());
  EXPECT_TRUE(add(*accounts.value(), "barn")) << "the connection is whole again";
}

}  // namespace
}  // namespace gearbox::central
