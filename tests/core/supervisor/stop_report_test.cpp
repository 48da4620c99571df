#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "supervisor/stopping.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::supervisor {
namespace {

TEST(StopReport, IsReadAsItWasWritten) {
  const gearbox::testing::TempDir folder;
  const auto file = folder.path() / "last_stop.json";
  StopReport report;
  EXPECT_TRUE(report.in_order());
  report.failed = 2;
  report.kept = 3;
  report.killed = {"worker-1", "node"};
  ASSERT_TRUE(write_stop_report(file, 77, StopReport{}));
  ASSERT_TRUE(write_stop_report(file, 78, report));
  const auto read = read_stop_report(file);
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(read.value().pid, 78);
  EXPECT_EQ(read.value().report.failed, 2U);
  EXPECT_EQ(read.value().report.kept, 3U);
  EXPECT_EQ(read.value().report.killed, report.killed);
  EXPECT_FALSE(read.value().report.hurried);
  EXPECT_FALSE(read.value().report.in_order());
}

TEST(StopReport, IsInOrderOnlyWhenNothingWasHurried) {
  StopReport failed, kept, killed, hurried;
  failed.failed = 1;
  kept.kept = 1;
  killed.killed = {"central"};
  hurried.hurried = true;
  for (const StopReport& each : {failed, kept, killed, hurried}) EXPECT_FALSE(each.in_order());
}

TEST(StopReport, WhatIsCutOrOddIsRefused) {
  const gearbox::testing::TempDir folder;
  const auto file = folder.path() / "last_stop.json";
  EXPECT_EQ(read_stop_report(file).error().code, Errc::io_error);
  ASSERT_TRUE(write_stop_report(file, 77, StopReport{}));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string whole = text.str();
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    std::ofstream(file, std::ios::trunc) << whole.substr(0, length);
    EXPECT_EQ(read_stop_report(file).error().code, Errc::corrupt_data) << length;
  }
  std::ofstream(file, std::ios::trunc) << R"({"pid":-1,"failed":0,"kept":0,"killed":[],"hurried":false})";
  EXPECT_FALSE(read_stop_report(file));
}

TEST(StopReport, ThatCannotBeWrittenIsAnError) {
  const gearbox::testing::TempDir folder;
  EXPECT_EQ(write_stop_report(folder.path() / "missing" / "x", 1, StopReport{}).error().code, Errc::io_error);
}

}  // namespace
}  // namespace gearbox::supervisor
