#include "gearbox/base/stop_point.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gearbox {
namespace {

TEST(StopPoints, AreListedOnceWithARoleThatExists) {
  const std::set<std::string_view> roles{"central", "node", "worker", "supervisor", "client"};
  std::set<std::string_view> names;
  for (const StopPoint& point : kStopPoints) {
    EXPECT_TRUE(names.insert(point.name).second) << point.name << " is listed twice";
    EXPECT_TRUE(roles.contains(point.role)) << point.role;
    EXPECT_EQ(point.name.find(':'), std::string_view::npos) << "a colon separates the count";
    EXPECT_TRUE(point.name.starts_with(std::string(point.role) + ".")) << point.name;
  }
}

TEST(StopPoints, LetAKnownNamePassWhenNobodyAsksForIt) {
  for (const StopPoint& point : kStopPoints) stop_point(point.name);
}

#if defined(GEARBOX_STOP_POINTS) && GEARBOX_STOP_POINTS
TEST(StopPointsDeathTest, EndTheProcessForANameThatIsNotListed) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(stop_point("no.such.point"), "not in kStopPoints");
}
#endif

}  // namespace
}  // namespace gearbox
