// Against a real server: what a connection does when it is cut, and that a change is whole or not there.
#include "sql/postgres_connection.hpp"

#include <gtest/gtest.h>

#include "sql/pg_link.hpp"
#include "support/postgres_server.hpp"

namespace gearbox::sql {
namespace {

using gearbox::testing::PostgresServer;

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
    EXPECT_EQ(insert(*database, "second", 2).error().code, Errc::overloaded);
    EXPECT_EQ(insert(*database, "third", 3).error().code, Errc::overloaded);
    EXPECT_EQ(transaction.commit().error().code, Errc::overloaded);
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
    EXPECT_EQ(insert(*database, "one", 2).error().code, Errc::io_error);
  }
  EXPECT_EQ(rows(), "0");
  EXPECT_TRUE(insert(*database, "one", 1));
}

TEST_F(PostgresConnectionTest, ATransactionThatTheFenceRefusesWritesNothing) {
  const auto database = connect();
  administer("UPDATE fence SET term = 2");
  {
    Transaction transaction(*database);
    EXPECT_EQ(transaction.begin().error().code, Errc::shutting_down);
  }
  administer("UPDATE fence SET term = 1");
  Transaction transaction(*database);
  EXPECT_TRUE(transaction.begin()) << "nothing of the refused one is left";
}

}  // namespace
}  // namespace gearbox::sql
