// What must hold of any run.
#include <cmath>

#include "gear/cost_model.hpp"
#include "scene.hpp"

namespace gearbox::replay {
namespace {

const char* const kBusy = "make:day,rate=60,duration=300";

Result busy_run(const Cluster& cluster, std::uint64_t seed, const char* traffic = kBusy) {
  const Model model = seven_billion();
  gear::CostModel policy{gear::CostModelLimits()};
  Scenario scenario;
  scenario.policy = &policy;
  scenario.keep_ended = true;
  const auto source = made(traffic, seed);
  return run(scenario, cluster, model, *source);
}

Cluster mixed() {
  auto cluster = read_cluster(GEARBOX_EXAMPLES "/mixed-8-slow-links.toml");
  EXPECT_TRUE(cluster);
  cluster.value().happenings[0].from = 60 * kSecond;
  cluster.value().happenings[1].from = 90 * kSecond;
  cluster.value().happenings[2].from = 150 * kSecond;
  cluster.value().happenings[2].until = 180 * kSecond;
  return cluster.value();
}

TEST(Laws, EverythingThatComesEndsAndGivesItsCacheBack) {
  const Result result = busy_run(mixed(), 1);
  EXPECT_GT(result.arrived, 5'000U);
  EXPECT_EQ(result.done, result.arrived);
  EXPECT_EQ(result.refused + result.unfinished, 0U);
  EXPECT_GT(result.retried, 0U) << "a node failed";
  EXPECT_FALSE(result.shifts.empty());
  EXPECT_TRUE(result.all_returned);
  std::vector<bool> seen(result.arrived, false);
  for (const Ended& ended : result.ended) {
    EXPECT_FALSE(seen[ended.number]) << "twice";
    seen[ended.number] = true;
  }
}

TEST(Laws, NothingEndsBeforeItsFirstTokenNorThatBeforeItCame) {
  for (const Ended& ended : busy_run(mixed(), 2).ended) {
    EXPECT_GT(ended.first_token_s, 0);
    EXPECT_GE(ended.latency_s, ended.first_token_s);
  }
}

TEST(Laws, TheNumberInTheSystemIsRateTimesStay) {
  const Result result = busy_run(mixed(), 3);
  double stays = 0;
  for (const Ended& ended : result.ended) stays += ended.latency_s;
  EXPECT_NEAR(result.in_system_s, stays, 1e-9 * stays);  // Little's law, both sides times the run's length
}

TEST(Laws, TheSameSeedGivesTheSameRunAndAnotherAnother) {
  const Result one = busy_run(mixed(), 4);
  const Result same = busy_run(mixed(), 4);
  const Result other = busy_run(mixed(), 5);
  ASSERT_EQ(one.ended.size(), same.ended.size());
  for (std::size_t i = 0; i < one.ended.size(); ++i) {
    ASSERT_EQ(one.ended[i].number, same.ended[i].number);
    ASSERT_EQ(one.ended[i].latency_s, same.ended[i].latency_s);
  }
  ASSERT_EQ(one.shifts.size(), same.shifts.size());
  EXPECT_EQ(one.request_steps, same.request_steps);
  EXPECT_NE(one.latency.mean(), other.latency.mean());
}

TEST(Laws, MoreLoadNeverHelps) {
  const Cluster cluster = nodes_of("a100-80g", 2);
  const Model model = seven_billion();
  double last = 0;
  for (const int rate : {2, 10, 30, 60, 90}) {
    const auto source = made("make:steady,duration=120,rate=" + std::to_string(rate), 1);
    const double mean = run(in_gear(1), cluster, model, *source).latency.mean();
    EXPECT_GT(mean, last) << rate << " requests/s";
    last = mean;
  }
}

TEST(Laws, BetterHardwareNeverHurts) {
  const Model model = seven_billion();
  const auto mean = [&](const std::string& more) {
    const Cluster cluster = cluster_of("[[nodes]]\nname = 'n'\ncard = 'v100-32g'\ncards = 8\n" + more);
    const auto source = made("make:steady,duration=120,rate=6", 1);
    return run(in_gear(2), cluster, model, *source).latency.mean();
  };
  const double as_told = mean("");
  EXPECT_LT(mean("tflops = 250\n"), as_told);
  EXPECT_LT(mean("memory_gb_s = 1800\n"), as_told);
  EXPECT_LT(mean("bus_gb_s = 300\n"), as_told);
  EXPECT_LE(mean("memory_gb = 64\n"), as_told * 1.0001);
  EXPECT_LT(mean("count = 2\n"), as_told);
}

TEST(Laws, WhatFitsNowhereIsRefusedAndTheRestIsServed) {
  const Cluster cluster = nodes_of("rtx3090", 1);
  const Model model = seven_billion();
  Trace trace;
  Arrival small;
  small.input_tokens = 100;
  small.output_tokens = 10;
  Arrival huge = small;
  huge.input_tokens = 1'000'000;
  trace.arrivals = {small, huge, small};
  const Result result = run(in_gear(1), cluster, model, *source_of(trace, 1, 0));
  EXPECT_EQ(result.refused, 1U);
  EXPECT_EQ(result.done, 2U);
}

}  // namespace
}  // namespace gearbox::replay
