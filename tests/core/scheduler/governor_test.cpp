#include "scheduler/governor.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace gearbox::scheduler {
namespace {

using plugin::GroupId;

class GovernorTest : public ::testing::Test {
 protected:
  GovernorTest() {
    pool_.model = {
        .layers = 32, .width = 4096, .heads = 32, .kv_heads = 32, .head_width = 128, .parameters = 6'740'000'000};
    for (std::uint32_t i = 0; i < 4; ++i) {
      plugin::GroupView group;
      group.id = GroupId{i};
      group.node = i;
      group.card = *gears::card_named("a100-80g");
      group.gear = 2;
      group.since_shift = milliseconds{3'600'000};
      groups_.push_back(group);
      records_.push_back({.group = GroupId{i}, .came_from = 1});
      gears_.push_back({{1, {8, 1, 1, 1}, true, true}, {2, {4, 2, 1, 1}, true, true}, {3, {2, 4, 1, 1}, true, true}});
    }
  }
  static Wish wish(std::uint32_t group, std::uint8_t gear, Origin origin = Origin::scheduler) {
    Wish made;
    made.proposal.group = GroupId{group};
    made.proposal.gear = gear;
    made.proposal.rule = "price";
    made.origin = origin;
    return made;
  }
  std::vector<Decision> judge(std::vector<Wish> wishes) {
    for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].gears = gears_[i];
    return scheduler::judge({std::span(&pool_, 1), groups_}, records_, std::move(wishes), rules_, minute_);
  }
  /// The rule that held the only wish back, or "pass".
  std::string rule_for(const Wish& only) {
    const auto decisions = judge({only});
    if (decisions.size() != 1) return std::to_string(decisions.size()) + " decisions";
    EXPECT_EQ(decisions[0].shift, decisions[0].governor == "pass");
    EXPECT_EQ(decisions[0].why.empty(), decisions[0].governor == "pass");
    return decisions[0].governor;
  }

  plugin::PoolView pool_;
  std::vector<plugin::GroupView> groups_;
  std::vector<GroupRecord> records_;
  std::deque<std::vector<plugin::GearView>> gears_;
  Rules rules_;
  std::uint16_t minute_ = 12 * 60;
};

TEST_F(GovernorTest, WhatNoRuleObjectsToIsShifted) {
  const auto decisions = judge({wish(1, 3)});
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_TRUE(decisions[0].shift);
  EXPECT_EQ(decisions[0].from, 2);
  EXPECT_EQ(decisions[0].to, 3);
  EXPECT_GT(decisions[0].assessment.memory, decisions[0].assessment.communication);
  EXPECT_FALSE(decisions[0].assessment.figures.empty());
}

TEST_F(GovernorTest, MemoryIsAskedFirstAndNobodyIsAboveIt) {
  gears_[1][2].fits = false;
  gears_[1][2].allowed = false;
  EXPECT_EQ(rule_for(wish(1, 3)), "memory");
  EXPECT_EQ(rule_for(wish(1, 3, Origin::person)), "memory");
}

TEST_F(GovernorTest, AClosedGearStaysClosed) {
  gears_[1][2].allowed = false;
  EXPECT_EQ(rule_for(wish(1, 3)), "allowed");
  EXPECT_EQ(rule_for(wish(1, 1)), "pass");
}

TEST_F(GovernorTest, AGroupStaysForItsDwell) {
  groups_[1].since_shift = milliseconds{89'999};
  EXPECT_EQ(rule_for(wish(1, 3)), "dwell");
  groups_[1].since_shift = milliseconds{90'000};
  EXPECT_EQ(rule_for(wish(1, 3)), "pass");
}

TEST_F(GovernorTest, AnUrgentShiftWaitsLess) {
  Wish urgent = wish(1, 3);
  urgent.proposal.urgent = true;
  groups_[1].since_shift = milliseconds{14'999};
  EXPECT_EQ(rule_for(urgent), "dwell");
  groups_[1].since_shift = milliseconds{15'000};
  EXPECT_EQ(rule_for(urgent), "pass");
}

TEST_F(GovernorTest, NotBackToWhereItCameFromAtOnceThoughUrgent) {
  Wish back = wish(1, 1);
  back.proposal.urgent = true;
  groups_[1].since_shift = milliseconds{29'999};
  EXPECT_EQ(rule_for(back), "reverse_cooldown");
  groups_[1].since_shift = milliseconds{30'000};
  EXPECT_EQ(rule_for(back), "pass");
}

TEST_F(GovernorTest, AGroupThatNeverShiftedHasNoDwell) {
  records_[1].came_from = 0;
  groups_[1].since_shift = milliseconds{0};
  EXPECT_EQ(rule_for(wish(1, 3)), "pass");
}

TEST_F(GovernorTest, GainMustBeLargeEnoughAndPay) {
  Wish small = wish(1, 3);
  small.proposal.gain = 0.039;
  EXPECT_EQ(rule_for(small), "gain");
  small.proposal.gain = 0.04;
  EXPECT_EQ(rule_for(small), "pass");
  small.proposal.gain_requests_s = 5;
  small.proposal.cost_requests_s = 5;
  EXPECT_EQ(rule_for(small), "cost");
  small.proposal.gain_requests_s = 5.1;
  EXPECT_EQ(rule_for(small), "pass");
  small.proposal.gain = -1;
  EXPECT_EQ(rule_for(small), "pass") << "a policy that predicts nothing is not held to it";
}

TEST_F(GovernorTest, TheBudgetOfAnHourEnds) {
  records_[1].shifts_of_hour = 20;
  EXPECT_EQ(rule_for(wish(1, 3)), "budget");
}

TEST_F(GovernorTest, OneWaveAtATime) {
  const auto decisions = judge({wish(0, 3), wish(1, 3), wish(2, 3)});
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_TRUE(decisions[0].shift);
  EXPECT_TRUE(decisions[1].shift);
  EXPECT_EQ(decisions[2].governor, "at_once");
  records_[3].shifting = true;
  records_[2].shifting = true;
  EXPECT_EQ(rule_for(wish(1, 3)), "at_once") << "those that are under way count";
  EXPECT_EQ(rule_for(wish(2, 3)), "shifting");
}

TEST_F(GovernorTest, MemoryAndUrgencyTakeThePlacesFirst) {
  rules_.at_once = 1;
  Wish large = wish(0, 3);
  large.proposal.gain = 0.9;
  Wish short_of_memory = wish(2, 3);
  short_of_memory.proposal.rule = "memory";
  const auto decisions = judge({large, short_of_memory});
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].group, GroupId{2});
  EXPECT_TRUE(decisions[0].shift);
  EXPECT_FALSE(decisions[1].shift);
}

TEST_F(GovernorTest, OnlyInItsHours) {
  rules_.hours = {{22 * 60, 6 * 60}};
  EXPECT_EQ(rule_for(wish(1, 3)), "hours");
  EXPECT_EQ(rule_for(wish(1, 3, Origin::person)), "pass");
  for (const int minute : {22 * 60, 23 * 60 + 59, 0, 5 * 60 + 59}) {
    minute_ = static_cast<std::uint16_t>(minute);
    EXPECT_EQ(rule_for(wish(1, 3)), "pass") << minute;
  }
  minute_ = 6 * 60;
  EXPECT_EQ(rule_for(wish(1, 3)), "hours");
  rules_.hours = {{6 * 60, 8 * 60}, {12 * 60, 12 * 60}};
  EXPECT_EQ(rule_for(wish(1, 3)), "pass");
}

TEST_F(GovernorTest, GlobalOverLocal) {
  // Of several wishes for one group the scheduler's is judged.
  const auto decisions = judge({wish(1, 1, Origin::node), wish(1, 3)});
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].to, 3);
  // And a node does not undo it, urgent or not, until the dwell is over.
  Wish local = wish(1, 3, Origin::node);
  local.proposal.urgent = true;
  groups_[1].since_shift = milliseconds{60'000};
  records_[1].last_origin = Origin::scheduler;
  EXPECT_EQ(rule_for(local), "global");
  records_[1].last_origin = Origin::node;
  EXPECT_EQ(rule_for(local), "pass");
}

TEST_F(GovernorTest, APersonIsAboveThePolicy) {
  groups_[1].since_shift = milliseconds{1};
  records_[1].shifts_of_hour = 1000;
  Wish worse = wish(1, 1, Origin::person);
  worse.proposal.gain = 0;
  EXPECT_EQ(rule_for(worse), "pass");
  records_[1].held = true;
  EXPECT_EQ(rule_for(worse), "pass");
  groups_[1].since_shift = milliseconds{3'600'000};
  records_[1].shifts_of_hour = 0;
  EXPECT_EQ(rule_for(wish(1, 3)), "held");
}

TEST_F(GovernorTest, ADryRunDecidesAndShiftsNothing) {
  rules_.dry_run = true;
  const auto decisions = judge({wish(1, 3), wish(2, 2)});
  ASSERT_EQ(decisions.size(), 1U) << "a wish for the gear that it is in is none";
  EXPECT_FALSE(decisions[0].shift);
  EXPECT_TRUE(decisions[0].dry_run);
  EXPECT_EQ(decisions[0].governor, "pass");
}

TEST_F(GovernorTest, WhatIsGoneIsLeftAlone) {
  EXPECT_TRUE(judge({wish(77, 3), wish(1, 5)}).empty());
}

}  // namespace
}  // namespace gearbox::scheduler
