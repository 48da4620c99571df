// Against a real server, which the tests start themselves in a scratch folder.
#include "sink/postgres_sink.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <iostream>

#include "conformance/sink_conformance.hpp"

namespace gearbox::sink {
namespace {

using plugin::Fate;

struct Ran {
  int code = -1;
  std::string out;
};

Ran run(const std::string& command, const std::filesystem::path& folder) {
  Ran ran;
  std::FILE* const pipe = ::popen((std::string(POSTGRES_SCRIPT) + " " + command + " " + folder.string()).c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 512> piece;
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) ran.out += piece.data();
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  while (!ran.out.empty() && ran.out.back() == '\n') ran.out.pop_back();
  return ran;
}

class PostgresSinkTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<gearbox::testing::TempDir>();
    started_ = run("start", folder_->path());
  }
  static void TearDownTestSuite() {
    if (started_.code == 0) {
      EXPECT_EQ(run("stop", folder_->path()).code, 0);
    }
    folder_.reset();
  }
  void SetUp() override {
    if (started_.code == 3) {
      std::cout << "NOT RUN: " << started_.out << "\n";
      GTEST_SKIP() << started_.out;
    }
    ASSERT_EQ(started_.code, 0) << started_.out;
  }
  static std::string connection() { return started_.out; }

  static inline std::unique_ptr<gearbox::testing::TempDir> folder_;
  static inline Ran started_;
};

std::vector<std::string> keys_in(const std::string& connection, const std::string& table) {
  pqxx::connection database(connection);
  pqxx::work work(database);
  std::vector<std::string> keys;
  for (const auto& row : work.exec("SELECT key FROM " + table + " ORDER BY key")) keys.push_back(row[0].c_str());
  return keys;
}

TEST_F(PostgresSinkTest, ConformsAndHasEachEventOnce) {
  PostgresSink sink(connection(), "conforming");
  test::conforms(sink, folder_->path());
  EXPECT_EQ(keys_in(connection(), "conforming"), test::SomeEvents(0, 8).keys());
}

TEST_F(PostgresSinkTest, AServerThatIsAwayIsForLaterAndBackIsFoundAgain) {
  PostgresSink sink(connection(), "away");
  ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents first(0, 2);
  const plugin::Verdict there = sink.deliver(first.views(), test::in_ten_seconds());
  ASSERT_EQ(there.fate, Fate::done) << there.reason;
  ASSERT_EQ(run("stop", folder_->path()).code, 0);
  const test::SomeEvents second(2, 4);
  for (int i = 0; i < 2; ++i) {
    const plugin::Verdict away = sink.deliver(second.views(), test::in_ten_seconds());
    EXPECT_EQ(away.fate, Fate::later);
    EXPECT_NE(away.reason, "");
  }
  ASSERT_EQ(run("restart", folder_->path()).code, 0);
  const plugin::Verdict back = sink.deliver(second.views(), test::in_ten_seconds());
  EXPECT_EQ(back.fate, Fate::done) << back.reason;
  EXPECT_EQ(keys_in(connection(), "away"), test::SomeEvents(0, 4).keys());
}

TEST_F(PostgresSinkTest, ComesBackFromAServerThatDoesNotAnswer) {
  PostgresSink sink(connection(), "frozen");
  ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents first(0, 2);
  ASSERT_EQ(sink.deliver(first.views(), test::in_ten_seconds()).fate, Fate::done);
  // The session of the table's lock holds the insert up for as long as it stands.
  pqxx::connection other(connection());
  pqxx::work lock(other);
  lock.exec("LOCK TABLE frozen");
  const test::SomeEvents second(2, 4);
  const Instant begun = Clock::now();
  const plugin::Verdict verdict = sink.deliver(second.views(), after(begun, milliseconds{500}));
  EXPECT_EQ(verdict.fate, Fate::later);
  EXPECT_EQ(verdict.reason, "the server did not answer in time");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  lock.abort();
  EXPECT_EQ(sink.deliver(second.views(), test::in_ten_seconds()).fate, Fate::done);
}

TEST_F(PostgresSinkTest, AValueThatTheTableDoesNotTakeIsForNever) {
  {
    pqxx::connection database(connection());
    pqxx::work work(database);
    work.exec(
        "CREATE TABLE narrow(key text PRIMARY KEY, state text, node text, device text, request text, \"user\" text, "
        "tenant integer, task text, accepted_unix_ms bigint, finished_unix_ms bigint, error text, input_bytes "
        "bigint, output_bytes bigint, result json, stored_in text)");
    work.commit();
  }
  PostgresSink sink(connection(), "narrow");
  ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents events(0, 1);  // of a tenant that is no int4
  const plugin::Verdict verdict = sink.deliver(events.views(), test::in_ten_seconds());
  EXPECT_EQ(verdict.fate, Fate::never) << verdict.reason;
  EXPECT_EQ(verdict.reason.find("SQLSTATE 22003: "), 0U) << verdict.reason;
  EXPECT_EQ(verdict.reason.find("4000000000"), std::string::npos) << verdict.reason;
}

TEST_F(PostgresSinkTest, ARefusalTellsNothingOfTheRow) {
  {
    pqxx::connection database(connection());
    pqxx::work work(database);
    work.exec(
        "CREATE TABLE picky(key text PRIMARY KEY, state text, node text, device text, request text, \"user\" text "
        "CHECK "
        "(\"user\" <> 'anna'), tenant bigint, task text, accepted_unix_ms bigint, finished_unix_ms bigint, error text, "
        "input_bytes bigint, output_bytes bigint, result json, stored_in text)");
    work.commit();
  }
  PostgresSink sink(connection(), "picky");
  ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents events(0, 1);
  const plugin::Verdict verdict = sink.deliver(events.views(), test::in_ten_seconds());
  EXPECT_EQ(verdict.fate, Fate::never);
  EXPECT_EQ(verdict.reason.find("SQLSTATE 23514: "), 0U) << verdict.reason;
  EXPECT_NE(verdict.reason.find("picky_user_check"), std::string::npos) << verdict.reason;
  EXPECT_EQ(verdict.reason.find("anna"), std::string::npos) << verdict.reason;
}

TEST_F(PostgresSinkTest, ATableThatIsNotOursIsForLaterAndSaysSo) {
  {
    pqxx::connection database(connection());
    pqxx::work work(database);
    work.exec("CREATE TABLE other(id integer)");
    work.commit();
  }
  PostgresSink sink(connection(), "other");
  ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents events(0, 1);
  const plugin::Verdict verdict = sink.deliver(events.views(), test::in_ten_seconds());
  EXPECT_EQ(verdict.fate, Fate::later);
  EXPECT_EQ(verdict.reason.find("SQLSTATE 42703: "), 0U) << verdict.reason;
}

TEST(PostgresTableName, IsANameOrTwo) {
  for (const char* good : {"results", "a.b", "_x1"}) EXPECT_TRUE(is_table_name(good)) << good;
  for (const char* bad : {"", "a.b.c", "1a", "a b", "a;b", ".a", "a."}) EXPECT_FALSE(is_table_name(bad)) << bad;
}

}  // namespace
}  // namespace gearbox::sink
