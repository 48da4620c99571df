#include "scheduler/view.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "gear/fixed.hpp"
#include "scheduler/decision_book.hpp"
#include "scheduler/round.hpp"

namespace gearbox::scheduler {
namespace {

using gear_facts::GroupFacts;

GroupFacts group(const char* name, const char* model, std::uint8_t gear = 1) {
  GroupFacts facts;
  facts.name = name;
  facts.model = model;
  facts.phase = "running";
  facts.gear = gear;
  facts.ranks = 4;
  facts.shape = {.layers = 8, .width = 64, .heads = 8, .kv_heads = 2, .head_width = 8, .parameters = 1000};
  return facts;
}

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() { snapshot_.groups = {group("a-0", "a"), group("a-1", "a", 2), group("b-0", "b")}; }
  const View& view() {
    ViewInputs inputs;
    inputs.hosts = {{.snapshot = &snapshot_, .records = &records_, .distrusted = distrusted_, .lag = lag_}};
    if (several_) {
      inputs.hosts[0].name = "north";
      inputs.hosts.push_back(
          {.snapshot = &south_, .records = &south_records_, .trust = 0.4, .distrusted = far_, .name = "south"});
    }
    inputs.gears = &gears_;
    inputs.misfits = &misfits_;
    view_.emplace(inputs, numbers_, now_);
    return *view_;
  }
  static std::vector<int> numbers(const plugin::GroupView& group, bool open) {
    std::vector<int> all;
    for (const plugin::GearView& gear : group.gears) {
      if (!open || (gear.allowed && gear.fits)) all.push_back(gear.number);
    }
    return all;
  }

  gear_facts::Snapshot snapshot_;
  std::vector<gear_facts::GroupRecord> records_;
  config::GearsConfig gears_;
  Misfits misfits_;
  GroupNumbers numbers_;
  bool distrusted_ = false;
  milliseconds lag_{0};
  bool several_ = false;  // a second host as well
  gear_facts::Snapshot south_;
  std::vector<gear_facts::GroupRecord> south_records_;
  bool far_ = false;  // which is not trusted
  Instant now_ = Instant() + seconds(100);
  std::optional<View> view_;
};

TEST_F(ViewTest, APoolThatNamesAGroupGoesBeforeOneThatNamesItsModel) {
  gears_.pools = {{"chat", {"a"}, {}}, {"vip", {}, {3}, {"a-1"}}, {"rest", {}, {}}};
  const plugin::ClusterView cluster = view().cluster();
  EXPECT_EQ(view_->pool(cluster.groups[0].id).name, "chat");
  EXPECT_EQ(view_->pool(cluster.groups[1].id).name, "vip/a");
  EXPECT_EQ(view_->pool(cluster.groups[2].id).name, "rest/b");
  for (const plugin::GearView& gear : cluster.groups[1].gears) EXPECT_EQ(gear.allowed, gear.number == 3);
}

TEST_F(ViewTest, ThePoolThatAGroupsWorkerIsInGoesBeforeAllNames) {
  gears_.pools = {{"chat", {"a"}, {}}, {"vip", {}, {3}, {"a-1"}}, {"night", {}, {5}, {}, {7}}};
  snapshot_.groups[0].pool = snapshot_.groups[1].pool = "night";
  snapshot_.groups[2].pool = "gone meanwhile";
  const plugin::ClusterView cluster = view().cluster();
  EXPECT_EQ(view_->pool(cluster.groups[0].id).name, "night/a");
  EXPECT_EQ(view_->pool(cluster.groups[1].id).name, "night/a");
  EXPECT_EQ(view_->pool(cluster.groups[2].id).name, "b");
  EXPECT_EQ(numbers(cluster.groups[1], true), (std::vector{5}));
}

TEST_F(ViewTest, OnePoolForEachModel) {
  const auto cluster = view().cluster();
  ASSERT_EQ(cluster.groups.size(), 3U);
  ASSERT_EQ(cluster.pools.size(), 2U);
  EXPECT_EQ(cluster.groups[0].pool, cluster.groups[1].pool);
  EXPECT_NE(cluster.groups[0].pool, cluster.groups[2].pool);
  EXPECT_EQ(cluster.pools[0].name, "a");
  EXPECT_EQ(cluster.pools[0].model.layers, 8U);
}

TEST_F(ViewTest, PoolsOfTheConfigurationComeFirst) {
  gears_.pools = {{"chat", {"a"}, {1, 2}}, {"rest", {}, {}}};
  const auto cluster = view().cluster();
  EXPECT_EQ(view_->pool(cluster.groups[0].id).name, "chat");
  EXPECT_EQ(view_->pool(cluster.groups[2].id).name, "rest/b");
  EXPECT_EQ(numbers(cluster.groups[0], true), (std::vector{1, 2}));
  EXPECT_EQ(numbers(cluster.groups[2], true), (std::vector{1, 2, 4, 5, 6}));
}

TEST_F(ViewTest, AGearThatTheModelCannotBeCutToIsNone) {
  EXPECT_EQ(numbers(view().cluster().groups[0], false), (std::vector{1, 2, 4, 5, 6})) << "two kv heads: no tensor ×4";
  snapshot_.groups[0].ranks = 2;
  EXPECT_EQ(numbers(view().cluster().groups[0], false), (std::vector{1, 2, 4, 5}));
  snapshot_.groups[0].ranks = 1;
  EXPECT_EQ(numbers(view().cluster().groups[0], false), (std::vector{1})) << "of one card every gear is the same";
}

TEST_F(ViewTest, OnFiguresThatMayBeOlderThanTheLastShiftNothingIsDecided) {
  for (gear_facts::GroupFacts& facts : snapshot_.groups) facts.age_ms = 100;
  lag_ = milliseconds(30);
  records_.resize(3);
  for (std::size_t i = 0; i < 3; ++i) records_[i].name = snapshot_.groups[i].name;
  records_[0].since_shift_ms = 130;
  records_[1].since_shift_ms = 131;
  EXPECT_EQ(view().cluster().groups.size(), 2U) << "one was seen before it had shifted, one never has";
  ASSERT_EQ(view_->left_out().size(), 1U);
  EXPECT_EQ(view_->left_out()[0].group, "a-0");
  EXPECT_EQ(view_->left_out()[0].why, "its figures are from before its last shift");
}

TEST_F(ViewTest, OfWhatIsNotFreshOrNotRunningNothingIsDecided) {
  snapshot_.groups[0].stale = true;
  snapshot_.groups[0].problem = "timeout";
  snapshot_.groups[1].phase = "building";
  snapshot_.groups[2].gear = 0;
  EXPECT_TRUE(view().cluster().groups.empty());
  ASSERT_EQ(view_->left_out().size(), 3U);
  EXPECT_EQ(view_->left_out()[0].why, "its figures are stale: timeout");
  EXPECT_EQ(view_->left_out()[1].why, "it is building");
  EXPECT_EQ(view_->left_out()[2].why, "it is in a plan of its own");
}

TEST_F(ViewTest, NumbersStayThoughGroupsComeAndGo) {
  const auto before = view().cluster().groups[2].id;
  snapshot_.groups.insert(snapshot_.groups.begin(), group("0-new", "a"));
  snapshot_.groups.erase(snapshot_.groups.begin() + 1);
  const auto& after = view();
  EXPECT_EQ(after.facts(before).name, "b-0");
  EXPECT_EQ(after.facts(after.cluster().groups.back().id).name, "0-new");
}

TEST_F(ViewTest, WhatTheExecutorKnowsComesWithTheGroup) {
  gear_facts::GroupRecord record;
  record.name = "a-1";
  record.came_from = 5;
  record.origin = "person";
  record.since_shift_ms = 1234;
  record.held = true;
  record.allowed = {2};
  record.pause_ms = 40;
  records_ = {record};
  const auto cluster = view().cluster();
  EXPECT_EQ(cluster.groups[1].since_shift, milliseconds(1234));
  EXPECT_DOUBLE_EQ(cluster.groups[1].pause_s, 0.04);
  EXPECT_EQ(numbers(cluster.groups[1], true), (std::vector{2}));
  EXPECT_EQ(view_->records()[1].came_from, 5);
  EXPECT_EQ(view_->records()[1].last_origin, Origin::person);
  EXPECT_TRUE(view_->records()[1].held);
  EXPECT_GT(cluster.groups[0].since_shift, std::chrono::hours(1)) << "of a group that never shifted";
}

TEST_F(ViewTest, LoadsOfAPoolAddUp) {
  snapshot_.groups[0].has_load = snapshot_.groups[1].has_load = true;
  snapshot_.groups[0].fast = {1, 100, 10};
  snapshot_.groups[1].fast = {3, 200, 30};
  snapshot_.groups[0].recent = {{5, 1, 1}};
  snapshot_.groups[1].recent = {{1, 1, 1}, {2, 1, 1}};
  snapshot_.queues = {{"a", 7, 0}, {"c", 9, 0}};
  const auto cluster = view().cluster();
  const plugin::PoolView& pool = cluster.pools[0];
  EXPECT_DOUBLE_EQ(pool.fast.requests_per_s, 4);
  EXPECT_DOUBLE_EQ(pool.fast.prompt_tokens, 175);
  ASSERT_EQ(pool.recent.size(), 2U);
  EXPECT_DOUBLE_EQ(pool.recent[0].requests_per_s, 1);
  EXPECT_DOUBLE_EQ(pool.recent[1].requests_per_s, 7) << "the newest windows belong together";
  EXPECT_EQ(pool.waiting, 7U);
}

TEST_F(ViewTest, AGearThatDidNotFitIsClosedForAWhile) {
  misfits_.add("a-0", 2, 0, now_);
  EXPECT_EQ(numbers(view().cluster().groups[0], true), (std::vector{1, 4, 5, 6}));
  snapshot_.groups[0].epoch = 1;
  EXPECT_EQ(numbers(view().cluster().groups[0], true).size(), 5U) << "another plan, another price";
  snapshot_.groups[0].epoch = 0;
  now_ += seconds(30);
  EXPECT_EQ(numbers(view().cluster().groups[0], true).size(), 5U) << "it is asked again";
}

TEST_F(ViewTest, ANodeThatIsNotTrustedStaysLowInAPoolOfItsOwn) {
  distrusted_ = true;
  const auto cluster = view().cluster();
  EXPECT_EQ(cluster.pools[0].name, "a (not trusted)");
  EXPECT_EQ(numbers(cluster.groups[0], true), (std::vector{1}));
}

TEST_F(ViewTest, GroupsOfSeveralHostsAreOnePoolAndBearTheirHostsNames) {
  several_ = true;
  south_.groups = {group("a-0", "a", 2)};
  south_.groups[0].has_load = snapshot_.groups[0].has_load = true;
  south_.groups[0].fast = {1, 100, 10};
  snapshot_.groups[0].fast = {2, 100, 10};
  snapshot_.queues = {{"a", 7, 0}};
  south_.queues = {{"a", 5, 0}, {"b", 9, 0}};
  gear_facts::GroupRecord record;
  record.name = "a-0";
  record.held = true;
  south_records_ = {record};
  const auto cluster = view().cluster();
  ASSERT_EQ(cluster.groups.size(), 4U);
  ASSERT_EQ(cluster.pools.size(), 2U);
  const auto far = cluster.groups[3].id, near = cluster.groups[0].id;
  EXPECT_EQ(view_->name(far), "south/a-0");
  EXPECT_EQ(view_->name(near), "north/a-0");
  EXPECT_EQ(view_->host(far), 1U);
  EXPECT_EQ(view_->facts(far).gear, 2) << "of two groups of one name each keeps its figures";
  EXPECT_EQ(view_->facts(near).gear, 1);
  EXPECT_TRUE(view_->records()[3].held) << "and its record";
  EXPECT_FALSE(view_->records()[0].held);
  EXPECT_EQ(cluster.groups[3].pool, cluster.groups[0].pool);
  EXPECT_DOUBLE_EQ(view_->pool(far).fast.requests_per_s, 3);
  EXPECT_EQ(view_->pool(far).waiting, 12U);
  EXPECT_EQ(view_->pool(cluster.groups[2].id).waiting, 0U) << "nobody of south serves that model";
}

TEST_F(ViewTest, AHostThatIsNotTrustedKeepsTheOthersOutOfIt) {
  several_ = far_ = true;
  south_.groups = {group("a-0", "a", 2)};
  const auto cluster = view().cluster();
  EXPECT_EQ(view_->pool(cluster.groups[3].id).name, "a (not trusted)");
  EXPECT_EQ(numbers(cluster.groups[3], true), (std::vector{1}));
  EXPECT_EQ(view_->pool(cluster.groups[0].id).name, "a");
  EXPECT_EQ(numbers(cluster.groups[0], true).size(), 5U);
  EXPECT_DOUBLE_EQ(cluster.groups[3].trust, 0.4);
  EXPECT_DOUBLE_EQ(cluster.groups[0].trust, 1);
}

TEST_F(ViewTest, APoolNamesAGroupAloneOrWithItsHost) {
  several_ = true;
  south_.groups = {group("a-0", "a")};
  gears_.pools = {{"far", {}, {2}, {"south/a-0"}}, {"both", {}, {3}, {"a-0"}}};
  view();
  const auto cluster = view_->cluster();
  EXPECT_EQ(view_->pool(cluster.groups[0].id).name, "both/a");
  EXPECT_EQ(view_->pool(cluster.groups[3].id).name, "far/a") << "with its host goes before alone";
}

TEST_F(ViewTest, AGearThatDoesNotFitOnOneHostIsOpenOnTheOther) {
  several_ = true;
  south_.groups = {group("a-0", "a")};
  misfits_.add("south/a-0", 2, 0, now_);
  const auto cluster = view().cluster();
  EXPECT_EQ(numbers(cluster.groups[3], true), (std::vector{1, 4, 5, 6}));
  EXPECT_EQ(numbers(cluster.groups[0], true).size(), 5U);
}

TEST_F(ViewTest, ARoundIsWhatThePolicyWishesAndTheGovernorSays) {
  gear::Fixed policy(2);
  auto decided = decide(view(), policy, rules_of(gears_), 0, now_);
  ASSERT_TRUE(decided);
  ASSERT_EQ(decided.value().size(), 2U);
  EXPECT_TRUE(decided.value()[0].shift);
  EXPECT_EQ(view_->facts(decided.value()[0].group).name, "a-0");
  const auto inputs = inputs_of(*view_, decided.value()[0].group, snapshot_);
  EXPECT_EQ(inputs.at("pool").as_string(), "a");
}

TEST(DecisionBook, TheSameAgainIsCountedAndAShiftIsNot) {
  DecisionBook book;
  Noted held;
  held.group = "a";
  held.decision.to = 2;
  held.decision.governor = "dwell";
  book.add(held, 1000);
  Noted other = held;
  other.group = "b";
  book.add(other, 1500);
  book.add(held, 2000);
  ASSERT_EQ(book.all().size(), 2U);
  EXPECT_EQ(book.all()[0].times, 2U);
  EXPECT_EQ(book.all()[0].first_unix_ms, 1000);
  EXPECT_EQ(book.all()[0].last_unix_ms, 2000);
  held.decision.governor = "gain";
  book.add(held, 3000);
  EXPECT_EQ(book.all().size(), 3U) << "another reason is another decision";
  held.decision.shift = true;
  book.add(held, 4000);
  book.add(held, 5000);
  EXPECT_EQ(book.all().size(), 5U);
}

TEST(DecisionBook, WhatIsNoNumberIsToldAsUnknown) {
  Noted noted;
  noted.decision.priced = {{1, std::numeric_limits<double>::infinity(), std::nan("")}};
  noted.decision.assessment.memory = std::nan("");
  const auto entry = to_json(noted);
  EXPECT_EQ(entry.at("priced").as_array()[0].at("latency_s").as_double(), -1);
  EXPECT_EQ(entry.at("assessment").at("memory").as_double(), -1);
}

TEST(DecisionBook, IsBoundedAndGivesPages) {
  DecisionBook book;
  Noted noted;
  noted.decision.shift = true;
  for (std::size_t i = 0; i < DecisionBook::kKept + 5; ++i) {
    noted.group = i % 2 == 0 ? "even" : "odd";
    book.add(noted, 0);
  }
  EXPECT_EQ(book.all().size(), DecisionBook::kKept);
  const auto first = book.page("odd", "");
  ASSERT_TRUE(first.at("more").as_bool());
  const auto& list = first.at("list").as_array();
  EXPECT_EQ(list[0].at("key").as_string(), std::to_string(DecisionBook::kKept + 4));
  const auto next = book.page("odd", std::string(list[list.size() - 1].at("key").as_string()));
  EXPECT_LT(std::stoul(std::string(next.at("list").as_array()[0].at("key").as_string())),
            std::stoul(std::string(list[list.size() - 1].at("key").as_string())));
}

}  // namespace
}  // namespace gearbox::scheduler
