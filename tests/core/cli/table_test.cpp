#include "cli/table.hpp"

#include <gtest/gtest.h>

namespace gearbox::cli {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"name", ">count"});
  table.add({"a", "5"});
  table.add({"größer", "1000"});
  EXPECT_EQ(table.text(false), "name    count\na           5\ngrößer   1000\n");
}

TEST(Table, FillsMissingCellsAndTrimsLineEnds) {
  Table table({"name", "reason"});
  table.add({"a"});
  table.add({"b", "full"});
  EXPECT_EQ(table.text(false), "name  reason\na\nb     full\n");
}

TEST(Table, LeavesOutAColumnWithNothingInAnyRow) {
  Table table({"name", ">pid", "state"});
  table.add({"a", "", "up"});
  table.add({"b", "", "down"});
  EXPECT_EQ(table.text(false), "name  state\na     up\nb     down\n");
}

TEST(DeviceText, TellsTheUsersOfThisHostFromDevices) {
  EXPECT_EQ(device_text(std::string(64, '0')), "this host (uid 0)");
  EXPECT_EQ(device_text("e8030000" + std::string(56, '0')), "this host (uid 1000)");
  const std::string key = "e8030000" + std::string(54, '0') + "01";
  EXPECT_EQ(device_text(key), key);
  EXPECT_EQ(device_text("no\nkey"), "no\\x0akey");
}

TEST(Table, WritesSizesAndTimesForPeople) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(3'400'000), "3.4 MB");
  EXPECT_EQ(bytes_text(268'435'456), "268 MB");
  EXPECT_EQ(duration_text(59), "59 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
}

}  // namespace
}  // namespace gearbox::cli
