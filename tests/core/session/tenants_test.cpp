#include "session/tenants.hpp"

#include <gtest/gtest.h>

namespace gearbox::session {
namespace {

Instant at(microseconds time) {
  return Instant{} + seconds(1000) + time;
}
double ms(milliseconds wait) {
  return static_cast<double>(wait.count());
}

TEST(Drain, TellsTheWaitFromThePaceOfTheLastSeconds) {
  Drain drain;
  EXPECT_EQ(drain.until(1, 0, at(milliseconds(0))), Drain::kUnknownWait);
  for (int i = 0; i <= 100; ++i) drain.ended(1000, at(milliseconds(100) * i));  // ten in a second
  const Instant now = at(milliseconds(10'000));
  EXPECT_NEAR(ms(drain.until(1, 0, now)), 100, 5);
  EXPECT_NEAR(ms(drain.until(20, 0, now)), 2000, 100);
  EXPECT_NEAR(ms(drain.until(1, 50'000, now)), 5000, 250);
  EXPECT_EQ(drain.until(1'000'000, 0, now), Drain::kLongestWait);
}

TEST(Drain, KnowsThePaceAfterAShortTimeAndStaysWithinItsBounds) {
  Drain drain;
  for (int i = 0; i <= 20; ++i) drain.ended(0, at(milliseconds(100) * i));
  EXPECT_NEAR(ms(drain.until(10, 0, at(milliseconds(2000)))), 1000, 60);
  for (int i = 0; i <= 5000; ++i) drain.ended(0, at(milliseconds(2000) + microseconds(200) * i));
  EXPECT_EQ(drain.until(1, 0, at(milliseconds(3000))), Drain::kShortestWait);
}

TEST(Tenants, LimitTheRequestsAndTheBytesOfAllDevicesTogether) {
  Tenants tenants;
  const Tenants::Limits limits{.requests = 2, .bytes = 1000};
  milliseconds wait{0};
  const Instant now = at(milliseconds(0));
  ASSERT_TRUE(tenants.check(7, 5000, limits, now, wait)) << "a single one may be larger";
  tenants.opened(7, 400, now);
  ASSERT_TRUE(tenants.check(7, 600, limits, now, wait));
  const auto too_many_bytes = tenants.check(7, 601, limits, now, wait);
  ASSERT_FALSE(too_many_bytes);
  EXPECT_EQ(too_many_bytes.error().code, Errc::overloaded);
  EXPECT_EQ(wait, Drain::kUnknownWait);
  tenants.opened(7, 100, now);
  EXPECT_FALSE(tenants.check(7, 0, limits, now, wait));
  EXPECT_TRUE(tenants.check(8, 900, limits, now, wait)) << "another tenant's";
  EXPECT_TRUE(tenants.check(7, 100'000, {}, now, wait)) << "0 is no limit";
  tenants.ended(7, 100, now);
  EXPECT_TRUE(tenants.check(7, 600, limits, now, wait));
}

TEST(Drain, ATimeInWhichNothingWasToBeDoneIsNotSlow) {
  Tenants tenants;
  for (int i = 0; i < 50; ++i) {  // each takes 100 ms
    tenants.opened(1, 0, at(milliseconds(100) * i));
    tenants.ended(1, 0, at(milliseconds(100) * (i + 1)));
  }
  const Instant later = at(milliseconds(5000) + seconds(3600));
  tenants.opened(1, 0, later);
  EXPECT_NEAR(ms(tenants.drain().until(1, 0, later)), 100, 10);
  // What takes long now is slow.
  EXPECT_GT(tenants.drain().until(1, 0, later + seconds(10)), milliseconds(500));
}

TEST(Tenants, TellTheirOwnPaceNotThatOfOthers) {
  Tenants tenants;
  const Tenants::Limits limits{.requests = 1, .bytes = 0};
  tenants.opened(1, 0, at(milliseconds(0)));
  tenants.opened(2, 0, at(milliseconds(0)));
  for (int i = 0; i <= 100; ++i) {
    tenants.opened(1, 0, at(milliseconds(100) * i));
    tenants.ended(1, 0, at(milliseconds(100) * i));
    if (i % 10 != 0) continue;
    tenants.opened(2, 0, at(milliseconds(100) * i));
    tenants.ended(2, 0, at(milliseconds(100) * i));
  }
  milliseconds quick{0};
  milliseconds slow{0};
  EXPECT_FALSE(tenants.check(1, 0, limits, at(milliseconds(10'000)), quick));
  EXPECT_FALSE(tenants.check(2, 0, limits, at(milliseconds(10'000)), slow));
  EXPECT_NEAR(ms(quick), 100, 5);
  EXPECT_NEAR(ms(slow), 1000, 120);
}

TEST(Tenants, TheTighterOfTwoLimitsHoldsAndZeroIsNone) {
  EXPECT_EQ(tighter(0U, 0U), 0U);
  EXPECT_EQ(tighter(0U, 5U), 5U);
  EXPECT_EQ(tighter(5U, 0U), 5U);
  EXPECT_EQ(tighter(5U, 3U), 3U);
}

}  // namespace
}  // namespace gearbox::session
