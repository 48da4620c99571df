#include "gear/fixed.hpp"
#include "scene.hpp"

namespace gearbox::replay {
namespace {

/// One node that is told to go from gear 1 to gear 3 while it serves.
Result shifted(const std::string& shift, const std::string& traffic = "make:steady,rate=20,duration=60") {
  const Cluster cluster = nodes_of("a100-80g", 1, "[shift]\n" + shift);
  const Model model = seven_billion();
  gear::Fixed policy(3);
  Scenario scenario;
  scenario.policy = &policy;
  return run(scenario, cluster, model, *made(traffic, 1));
}

TEST(Shift, PausesAndGoesOnInTheOtherGear) {
  const Result result = shifted("pause_ms = 500\nrehearse_ms = 2000\n");
  ASSERT_EQ(result.shifts.size(), 1U);
  const ShiftDone& shift = result.shifts.front();
  EXPECT_EQ(shift.from, 1);
  EXPECT_EQ(shift.to, 3);
  EXPECT_EQ(shift.rule, "fixed");
  EXPECT_GE(shift.pause_s, 0.5);
  EXPECT_LT(shift.pause_s, 1.0);
  EXPECT_GT(shift.paused_requests_s, 0);
  EXPECT_NEAR(result.gear_s[1], 1 + 2 + shift.pause_s, 0.001) << "a round, the rehearsal, the pause";
  EXPECT_EQ(result.done, result.arrived);
  EXPECT_EQ(result.recomputed, 0U);
  EXPECT_TRUE(result.all_returned);
}

TEST(Shift, DrainingTakesLongerAndRecomputingRepeatsPrompts) {
  const Result in_flight = shifted("how = 'in_flight'\npause_ms = 300\n");
  const Result drained = shifted("how = 'drain'\npause_ms = 300\n");
  const Result recomputed = shifted("how = 'recompute'\npause_ms = 300\n");
  ASSERT_EQ(drained.shifts.size(), 1U);
  EXPECT_GT(drained.shifts.front().pause_s, 2 * in_flight.shifts.front().pause_s);
  EXPECT_GT(recomputed.recomputed, 0U);
  for (const Result* result : {&in_flight, &drained, &recomputed}) EXPECT_EQ(result->done, result->arrived);
}

TEST(Shift, TheGovernorHoldsBackWhatIsNotAllowed) {
  const Cluster cluster = nodes_of("a100-80g", 1, "[[pools]]\nname = 'p'\ngears = [1, 2]\n");
  const Model model = seven_billion();
  gear::Fixed policy(3);
  Scenario scenario;
  scenario.policy = &policy;
  const Result result = run(scenario, cluster, model, *made("make:steady,rate=5,duration=30", 1));
  EXPECT_TRUE(result.shifts.empty());
  EXPECT_EQ(result.gear_s[1], result.span_s);
  // The shipped policy asks for open gears only.
  EXPECT_TRUE(result.held_back.empty());
}

TEST(Shift, SlowLinksMakeGearsThatNeedThemSlow) {
  const std::string slow = "[[happenings]]\nkind = 'slow_link'\nnode = 'n-0'\nat_s = 0\nslowdown = 20\n";
  const Model model = seven_billion();
  const auto mean = [&](std::uint8_t gear, const std::string& more) {
    const Cluster cluster = nodes_of("a100-80g", 1, more);
    return run(in_gear(gear), cluster, model, *made("make:steady,rate=3,duration=60", 1)).latency.mean();
  };
  EXPECT_GT(mean(3, slow), 1.5 * mean(3, ""));
  EXPECT_NEAR(mean(1, slow), mean(1, ""), 1e-9);
}

TEST(Shift, AFailedNodeIsDownUntilItHasStartedAgain) {
  const Cluster cluster = nodes_of("a100-80g", 2);
  Cluster failing = cluster;
  Happening fail;
  fail.from = 20 * kSecond;
  fail.until = 40 * kSecond;
  failing.happenings = {fail};
  failing.restart_s = 10;
  const Model model = seven_billion();
  const Result result = run(in_gear(2), failing, model, *made("make:steady,rate=20,duration=90", 1));
  EXPECT_NEAR(result.gear_s[0], 30, 1e-6);
  EXPECT_GT(result.retried, 0U);
  EXPECT_EQ(result.done, result.arrived);
  EXPECT_TRUE(result.all_returned);
}

}  // namespace
}  // namespace gearbox::replay
