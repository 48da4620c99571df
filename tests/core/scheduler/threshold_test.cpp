// Load that sits at a threshold, or pulses about it: a group must not swing. The clock is simulated.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>

#include "gear/cost_model.hpp"
#include "gear/flexpipe.hpp"
#include "scheduler/governor.hpp"

namespace gearbox::scheduler {
namespace {

constexpr milliseconds kTenMinutes{600'000};
constexpr milliseconds kRound{1'000};

/// Shifts within ten minutes when `at` sets the figures of each second.
int shifts(plugin::GearPolicy& policy, const Rules& rules,
           const std::function<void(int second, plugin::GroupView&, plugin::PoolView&)>& at) {
  std::array<plugin::GearView, 3> gears = {plugin::GearView{1, {8, 1, 1, 1}, true, true},
                                           plugin::GearView{2, {4, 2, 1, 1}, true, true},
                                           plugin::GearView{3, {2, 4, 1, 1}, true, true}};
  plugin::PoolView pool;
  pool.model = {
      .layers = 32, .width = 4096, .heads = 32, .kv_heads = 32, .head_width = 128, .parameters = 6'740'000'000};
  plugin::GroupView group;
  group.card = *gears::card_named("a100-80g");
  group.gear = 2;
  group.gears = gears;
  group.activity = 0.3;
  group.pause_s = 0.05;
  GroupRecord record;
  record.came_from = 1;
  int count = 0;
  for (milliseconds time{0}; time < kTenMinutes; time += kRound) {
    group.since_shift += kRound;
    at(static_cast<int>(time.count() / 1000), group, pool);
    const plugin::ClusterView cluster{std::span(&pool, 1), std::span(&group, 1)};
    auto proposed = policy.propose(cluster, Instant() + time);
    std::vector<Wish> wishes;
    for (plugin::Proposal& proposal : proposed.value()) wishes.push_back({std::move(proposal), Origin::scheduler});
    for (const Decision& decision : judge(cluster, std::span(&record, 1), std::move(wishes), rules, 0)) {
      if (!decision.shift) continue;
      record.came_from = group.gear;
      group.gear = decision.to;
      group.since_shift = milliseconds{0};
      ++count;
    }
  }
  return count;
}

int most(milliseconds dwell) {
  return static_cast<int>(kTenMinutes / dwell) + 1;
}

TEST(AtAThreshold, FlexpipeShiftsNoOftenerThanTheDwellAllows) {
  gear::Flexpipe policy{gear::FlexpipeLimits()};
  const Rules rules;
  const int count = shifts(policy, rules, [](int second, plugin::GroupView& group, plugin::PoolView&) {
    // The links swing about both thresholds, the queue about its own.
    group.link_health = second % 2 == 0 ? 0.39 : 0.81;
    group.waiting = second % 2 == 0 ? 49 : 51;
  });
  EXPECT_GT(count, 0);
  EXPECT_LE(count, most(rules.dwell));
}

TEST(AtAThreshold, TheCostModelShiftsNoOftenerThanTheUrgentDwellAllows) {
  gear::CostModel policy{gear::CostModelLimits()};
  const Rules rules;
  const int count = shifts(policy, rules, [](int second, plugin::GroupView&, plugin::PoolView& pool) {
    const double load = second % 2 == 0 ? 2 : 45;
    pool.fast = pool.slow = {load, 872, 218};
  });
  EXPECT_GT(count, 0);
  EXPECT_LE(count, most(rules.urgent_dwell));
  EXPECT_LE(count, most(rules.reverse_cooldown)) << "to and fro is limited by the cooldown";
}

TEST(AtAThreshold, TheCostModelRemembersTheBurstsOfTheLastMinutes) {
  gear::CostModel policy{gear::CostModelLimits()};
  std::array<plugin::LoadView, 9> recent;
  recent.fill({45, 872, 218});
  const int count = shifts(policy, Rules(), [&](int second, plugin::GroupView&, plugin::PoolView& pool) {
    pool.fast = pool.slow = {second % 40 < 20 ? 2.0 : 45.0, 872, 218};
    pool.recent = recent;
  });
  EXPECT_LE(count, 2);
}

TEST(AtAThreshold, ASteadyLoadEndsInOneGear) {
  gear::CostModel policy{gear::CostModelLimits()};
  const int count = shifts(policy, Rules(), [](int, plugin::GroupView&, plugin::PoolView& pool) {
    pool.fast = pool.slow = {20, 872, 218};
  });
  EXPECT_LE(count, 2);
}

}  // namespace
}  // namespace gearbox::scheduler
