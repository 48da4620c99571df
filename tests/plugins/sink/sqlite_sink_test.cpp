#include "sink/sqlite_sink.hpp"

#include <gtest/gtest.h>

#include "conformance/sink_conformance.hpp"

namespace gearbox::sink {
namespace {

using plugin::Fate;

std::vector<std::string> keys_in(const std::filesystem::path& file) {
  auto database = sqlite::Database::open(file, false);
  EXPECT_TRUE(database);
  auto rows = database.value().prepare("SELECT key FROM results ORDER BY id");
  EXPECT_TRUE(rows);
  std::vector<std::string> keys;
  for (auto there = rows.value().first(); there && there.value(); there = rows.value().next()) {
    keys.push_back(rows.value().text(0));
  }
  return keys;
}

TEST(SqliteSink, ConformsAndHasEachEventOnce) {
  const gearbox::testing::TempDir folder;
  SqliteSink sink("results.db", 0);
  test::conforms(sink, folder.path());
  EXPECT_EQ(keys_in(folder.path() / "results.db"), test::SomeEvents(0, 8).keys());
}

TEST(SqliteSink, LetsGoOfTheOldest) {
  const gearbox::testing::TempDir folder;
  SqliteSink sink((folder.path() / "elsewhere.db").string(), 3);
  ASSERT_TRUE(sink.open({"one", "node-1", "/nowhere"}));
  const test::SomeEvents events(0, 10);
  EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::done);
  EXPECT_EQ(keys_in(folder.path() / "elsewhere.db"), test::SomeEvents(7, 10).keys());
}

TEST(SqliteSink, WhatItCannotWriteComesAgain) {
  SqliteSink sink("results.db", 0);
  EXPECT_FALSE(sink.open({"one", "node-1", "/nowhere/at/all"}));
}

TEST(SqliteSink, AFileThatIsTakenByAnotherIsForLater) {
  const gearbox::testing::TempDir folder;
  SqliteSink sink("results.db", 0);
  const std::string place = folder.path().string();
  ASSERT_TRUE(sink.open({"one", "node-1", place}));
  auto other = sqlite::Database::open(folder.path() / "results.db", false);
  ASSERT_TRUE(other);
  ASSERT_TRUE(other.value().run("BEGIN IMMEDIATE"));
  const test::SomeEvents events(0, 2);
  const plugin::Verdict verdict = sink.deliver(events.views(), test::in_ten_seconds());
  EXPECT_EQ(verdict.fate, Fate::later);
  EXPECT_NE(verdict.reason, "");
  ASSERT_TRUE(other.value().run("ROLLBACK"));
  EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::done);
}

}  // namespace
}  // namespace gearbox::sink
