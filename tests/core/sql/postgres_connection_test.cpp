// Against a real server: what a connection does when it is cut, and that a change is whole or not there.
#include "sql/postgres_connection.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "sql/pg_link.hpp"
#include "sql/server_turn.hpp"
#include "support/delaying_proxy.hpp"
#include "support/postgres_server.hpp"

namespace gearbox::sql {
namespace {

using gearbox::testing::DelayingProxy;
using gearbox::testing::PostgresServer;

/// Errc{}: it went well.
template <class T>
Errc code_of(const Outcome<T>& outcome) {
  return outcome ? Errc{} : outcome.error().code;
}

class PostgresConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresServer::get().missing(); !missing.empty()) GTEST_SKIP() << missing;
    administer("DROP TABLE IF EXISTS things; CREATE TABLE things(name text PRIMARY KEY, number bigint)");
    administer("DROP TABLE IF EXISTS fence; CREATE TABLE fence(term bigint); INSERT INTO fence VALUES(1)");
  }
  static std::unique_ptr<Connection> connect() {
    PostgresSettings settings;
    settings.connection = PostgresServer::get().connection();
    settings.set_up = "SET application_name TO 'ours'";
    settings.begin = "UPDATE fence SET term = term WHERE term = 1";
    settings.pause = milliseconds{0};
    return connection_to(std::move(settings));
  }
  static std::string administer(const std::string& sql) {
    PgLink link(PostgresServer::get().connection(), "SET client_min_messages TO warning");
    const Instant deadline = after(Clock::now(), seconds{20});
    EXPECT_TRUE(link.connect(deadline));
    const auto rows = link.run(sql, {}, deadline);
    EXPECT_TRUE(rows) << rows.error().detail;
    return rows && rows.value().count() > 0 ? rows.value().text(0, 0) : std::string();
  }
  static void cut() {
    ASSERT_EQ(
        administer("SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE application_name = "
                   "'ours'"),
        "1");
  }
  static Outcome<void> insert(Connection& database, std::string_view name, std::int64_t number) {
    BOOST_OUTCOME_TRY(auto insert, database.prepare("INSERT INTO things VALUES(?1, ?2)"));
    BOOST_OUTCOME_TRY(insert.first(name, number));
    return done();
  }
  static std::string rows() { return administer("SELECT count(*) FROM things"); }
};

TEST_F(PostgresConnectionTest, GivesBackWhatWasPutInAndCountsWhatItChanged) {
  const auto database = connect();
  ASSERT_TRUE(insert(*database, "a' OR '1'='1", 1));
  ASSERT_TRUE(insert(*database, "käse\n\\x", -9'000'000'000));
  auto read = database->prepare("SELECT name, number FROM things WHERE number <= ?1 ORDER BY number");
  ASSERT_TRUE(read);
  ASSERT_TRUE(read.value().first(std::int64_t{1}).value());
  EXPECT_EQ(read.value().text(0), "käse\n\\x");
  EXPECT_EQ(read.value().integer(1), -9'000'000'000);
  ASSERT_TRUE(read.value().next().value());
  EXPECT_EQ(read.value().text(0), "a' OR '1'='1");
  EXPECT_FALSE(read.value().next().value());
  auto remove = database->prepare("DELETE FROM things WHERE number < ?1");
  ASSERT_TRUE(remove.value().first(std::int64_t{0}));
  EXPECT_EQ(database->changed_rows(), 1);
}

TEST_F(PostgresConnectionTest, OneThatWasCutWhileIdleIsMadeAnewUnnoticed) {
  const auto database = connect();
  ASSERT_TRUE(insert(*database, "before", 1));
  cut();
  const auto done = insert(*database, "after", 2);
  EXPECT_TRUE(done) << done.error().detail;
  EXPECT_EQ(rows(), "2");
}

TEST_F(PostgresConnectionTest, WhatFollowsACutInsideATransactionIsNotRunOutsideOfIt) {
  const auto database = connect();
  {
    Transaction transaction(*database);
    ASSERT_TRUE(transaction.begin());
    ASSERT_TRUE(insert(*database, "first", 1));
    cut();
    EXPECT_EQ(code_of(insert(*database, "second", 2)), Errc::overloaded);
    EXPECT_EQ(code_of(insert(*database, "third", 3)), Errc::overloaded);
    EXPECT_EQ(code_of(transaction.commit()), Errc::overloaded);
  }
  EXPECT_EQ(rows(), "0");
  Transaction again(*database);
  ASSERT_TRUE(again.begin());
  ASSERT_TRUE(insert(*database, "first", 1));
  ASSERT_TRUE(again.commit());
  EXPECT_EQ(rows(), "1");
}

TEST_F(PostgresConnectionTest, AnErrorInATransactionLeavesTheConnectionUsable) {
  const auto database = connect();
  {
    Transaction transaction(*database);
    ASSERT_TRUE(transaction.begin());
    ASSERT_TRUE(insert(*database, "one", 1));
    EXPECT_EQ(code_of(insert(*database, "one", 2)), Errc::io_error);
  }
  EXPECT_EQ(rows(), "0");
  EXPECT_TRUE(insert(*database, "one", 1));
}

TEST_F(PostgresConnectionTest, ATransactionThatTheFenceRefusesWritesNothing) {
  const auto database = connect();
  administer("UPDATE fence SET term = 2");
  {
    Transaction transaction(*database);
    EXPECT_EQ(code_of(transaction.begin()), Errc::shutting_down);
  }
  administer("UPDATE fence SET term = 1");
  Transaction transaction(*database);
  EXPECT_TRUE(transaction.begin()) << "nothing of the refused one is left";
}

TEST_F(PostgresConnectionTest, AFarServerIsReachedByCallsThatAreShorterThanTheWayThereAndBack) {
  const DelayingProxy far(PostgresServer::get().socket(), milliseconds{150});
  PostgresSettings settings;
  settings.connection = "host=127.0.0.1 sslmode=disable gssencmode=disable user=gearbox dbname=postgres port=" +
                        std::to_string(far.port());
  settings.set_up = "SET client_min_messages TO warning";
  settings.connect_within = milliseconds{100};
  settings.pause = milliseconds{0};
  const auto database = connection_to(settings);
  const Instant begun = Clock::now();
  Outcome<void> asked = database->run("SELECT 1");
  while (!asked && Clock::now() - begun < seconds{10}) asked = database->run("SELECT 1");
  EXPECT_TRUE(asked) << asked.error().detail;
}

/// Takes connections, as the kernel does for whoever listens, and never says a word.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    port_ = ntohs(address.sin_port);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  ~SilentServer() { ::close(socket_); }
  int port() const { return port_; }
  std::string connection() const { return "host=127.0.0.1 dbname=x user=x port=" + std::to_string(port_); }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

TEST(SilentPostgres, CostsOneCallInManyAShortWait) {
  const SilentServer server;
  PostgresSettings settings;
  settings.connection = server.connection();
  settings.set_up = "SET client_min_messages TO warning";
  settings.connect_within = milliseconds{100};
  settings.pause = milliseconds{60'000};
  const auto database = connection_to(settings);
  const Instant begun = Clock::now();
  for (int i = 0; i < 100; ++i) {
    const auto away = database->run("SELECT 1");
    ASSERT_FALSE(away);
    EXPECT_EQ(away.error().code, Errc::overloaded) << away.error().detail;
  }
  EXPECT_LT(Clock::now() - begun, milliseconds{2'000}) << "not a wait for each";
}

TEST(SilentPostgres, IsGivenUpWhenItDoesNotAnswerAtAll) {
  const SilentServer server;
  PgLink link(server.connection(), "SET client_min_messages TO warning");
  const Instant begun = Clock::now();
  Outcome<bool> connected = false;
  while (connected && Clock::now() - begun < seconds{20}) {
    connected = link.connect(after(Clock::now(), milliseconds{50}));
    ASSERT_FALSE(connected && connected.value());
  }
  ASSERT_FALSE(connected) << "it goes on for ever";
  EXPECT_EQ(code_of(connected), Errc::overloaded);
  EXPECT_NE(connected.error().detail.find("within 5000 ms"), std::string::npos) << connected.error().detail;
}

TEST_F(PostgresConnectionTest, OfTwoServersTheSecondIsReachedWhenTheFirstIsSilent) {
  const SilentServer silent;
  PgLink link("host=127.0.0.1," + PostgresServer::get().socket().parent_path().string() +
                  " port=" + std::to_string(silent.port()) + ",5432 user=gearbox dbname=postgres",
              "SET client_min_messages TO warning");
  int refused = 0;
  bool open = false;
  for (const Instant begun = Clock::now(); !open && Clock::now() - begun < seconds{20};) {
    const auto connected = link.connect(after(Clock::now(), milliseconds{500}));
    if (!connected) ++refused;
    open = connected && connected.value();
  }
  EXPECT_TRUE(open);
  EXPECT_EQ(refused, 1) << "the silent one was asked first, once";
}

TEST(TurnedServers, BeginLaterAndKeepTheirPorts) {
  using Words = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(turned_servers("host=a,b,c port=1,2,3 dbname=x", 1), (Words{{"host", "b,c,a"}, {"port", "2,3,1"}}));
  EXPECT_EQ(turned_servers("postgresql://a:1,b:2/x", 3), (Words{{"host", "b,a"}, {"port", "2,1"}}));
  EXPECT_EQ(turned_servers("host=a,b hostaddr=10.0.0.1,10.0.0.2 port=5", 1),
            (Words{{"host", "b,a"}, {"hostaddr", "10.0.0.2,10.0.0.1"}}));
  EXPECT_EQ(turned_servers("host=a,b port=1,2", 0), Words());
  EXPECT_EQ(turned_servers("host=a port=1", 1), Words());
  EXPECT_EQ(turned_servers("gearbox", 1), Words());
}

}  // namespace
}  // namespace gearbox::sql
