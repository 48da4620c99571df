// What a host adds that its cards do not have: the broker's share of a request and of a token, and cores that replicas
// share.
#include "scene.hpp"

namespace gearbox::replay {
namespace {

Cluster pair_with(const std::string& head, const std::string& node) {
  return cluster_of(head + "[[nodes]]\nname = 'n'\ncard = 'cpu'\ncards = 2\n" + node);
}

Model small() {
  return model_of("name = 'm'\nlayers = 6\nwidth = 256\nheads = 8\nparameters = 4600000\nbytes_per_number = 4\n");
}

/// Requests of 10 tokens that come at the same moment, with so many tokens in their answers.
Trace at_once(const std::vector<std::uint32_t>& answers) {
  Trace trace;
  trace.tenants = {""};
  for (const std::uint32_t answer : answers) {
    Arrival arrival;
    arrival.input_tokens = 10;
    arrival.output_tokens = answer;
    trace.arrivals.push_back(arrival);
  }
  return trace;
}

/// Latencies in the order of arrival, in seconds.
std::vector<double> latencies(const Cluster& cluster, std::uint8_t gear, const Trace& trace, bool one_by_one = false) {
  Scenario scenario = in_gear(gear);
  scenario.keep_ended = true;
  scenario.one_by_one = one_by_one;
  std::vector<double> found(trace.arrivals.size());
  for (const Ended& ended : run(scenario, cluster, small(), *source_of(trace, 1, 0)).ended)
    found[ended.number] = ended.latency_s;
  return found;
}

TEST(SharedHost, TheBrokersTimeIsAddedOnceToEachRequest) {
  const Trace trace = at_once({20, 20, 60});
  const auto without = latencies(pair_with("", ""), 1, trace);
  const auto with = latencies(pair_with("broker_ms = 7\n", ""), 1, trace);
  for (std::size_t i = 0; i < without.size(); ++i) EXPECT_NEAR(with[i] - without[i], 0.007, 1e-8) << i;
}

TEST(SharedHost, EachTokenHoldsUpTheStepThatItComesFrom) {
  // One alone: 40 steps after the prompt's, of one token each.
  const auto without = latencies(pair_with("", ""), 2, at_once({41}));
  const auto with = latencies(pair_with("token_us = 500\n", ""), 2, at_once({41}));
  EXPECT_NEAR(with[0] - without[0], 40 * 500e-6, 1e-8);
  // Two in one replica: each step has two tokens to hand on.
  const auto two_without = latencies(pair_with("", ""), 2, at_once({41, 41}));
  const auto two_with = latencies(pair_with("token_us = 500\n", ""), 2, at_once({41, 41}));
  EXPECT_NEAR(two_with[1] - two_without[1], 40 * 2 * 500e-6, 1e-8);
}

TEST(SharedHost, CachedPositionsHoldUpAStepAlsoThoseOfPadding) {
  const auto longer = [&](const std::string& head, const Trace& trace, bool one_by_one) {
    const auto without = latencies(pair_with("", ""), 2, trace, one_by_one);
    auto found = latencies(pair_with(head, ""), 2, trace, one_by_one);
    for (std::size_t i = 0; i < found.size(); ++i) found[i] -= without[i];
    return found;
  };
  Trace two = at_once({41, 41});
  two.arrivals[1].input_tokens = 60;
  // 40 steps over caches of 10 + 1, 10 + 2 ... and 60 + 1, 60 + 2 ...; two cards share them.
  const double positions = 40.0 * (10 + 60) + 2 * (40.0 * 41 / 2);
  // The first one decodes a step before the second, which takes its prompt in meanwhile, and ends a step before it.
  const double padded = (10 + 1) + 2 * (39.0 * 60 + 39.0 * 40 / 2) + (60 + 40);
  for (const bool one_by_one : {false, true}) {
    EXPECT_NEAR(longer("position_ns = 1000\n", two, one_by_one)[1], positions * 1e-6 / 2, 1e-7);
    EXPECT_NEAR(longer("position_ns = 1000\npads = true\n", two, one_by_one)[1], padded * 1e-6 / 2, 1e-7);
  }
}

TEST(SharedHost, PromptsBesideThoseThatDecodeCostAStepMore) {
  Trace two = at_once({41, 41});
  two.arrivals[1].at = 1'000'000;  // 1 ms: while the first one decodes
  const auto without = latencies(pair_with("", ""), 2, two);
  const auto with = latencies(pair_with("mixed_us = 500\n", ""), 2, two);
  EXPECT_NEAR(with[0] - without[0], 2 * 500e-6, 1e-8) << "one such step, of a replica of two cards";
  const auto alone = latencies(pair_with("mixed_us = 500\n", ""), 2, at_once({41}));
  EXPECT_EQ(alone, latencies(pair_with("", ""), 2, at_once({41}))) << "no step of one alone has both";
}

TEST(SharedHost, ReplicasThatRunAtOnceSlowEachOtherDown) {
  const std::string shared = "full_speed_replicas = 1.25\n";  // two at once take 1.6 times as long
  const auto alone = latencies(pair_with("", ""), 1, at_once({50}));
  EXPECT_NEAR(latencies(pair_with("", shared), 1, at_once({50}))[0], alone[0], 1e-8) << "one runs at full speed";
  EXPECT_NEAR(latencies(pair_with("", shared), 1, at_once({50, 50}))[1], 1.6 * alone[0], 0.02 * alone[0]);
  EXPECT_NEAR(latencies(pair_with("", shared), 2, at_once({50}))[0], latencies(pair_with("", ""), 2, at_once({50}))[0],
              1e-8)
      << "a single replica of several cards shares with nobody";
  EXPECT_NEAR(latencies(pair_with("", "full_speed_replicas = 2\n"), 1, at_once({50, 50}))[1], alone[0], 1e-8);
}

TEST(SharedHost, WhoStaysAloneGoesOnAtFullSpeed) {
  const Cluster shared = pair_with("", "full_speed_replicas = 1\n");  // two at once take twice as long
  const auto free = latencies(pair_with("", ""), 1, at_once({100, 1000}));
  for (const bool one_by_one : {false, true}) {
    const auto found = latencies(shared, 1, at_once({100, 1000}), one_by_one);
    EXPECT_NEAR(found[0], 2 * free[0], 0.02 * free[0]);
    EXPECT_NEAR(found[1], free[1] + free[0], 0.02 * free[0]) << "as much longer as it was not alone";
  }
}

TEST(SharedHost, TheFileSaysHowAnAllReduceBegins) {
  const Cluster cluster = pair_with("", "reduce_start_us = 130\n");
  for (const double start : cluster.sets[0].card.reduce_start_s) EXPECT_DOUBLE_EQ(start, 130e-6);
  const auto quick = latencies(pair_with("", "reduce_start_us = 0\n"), 2, at_once({41}));
  const auto slow = latencies(cluster, 2, at_once({41}));
  EXPECT_NEAR(slow[0] - quick[0], 41 * 2 * 6 * 130e-6, 1e-6);  // steps, all-reduces of a layer, layers
}

}  // namespace
}  // namespace gearbox::replay
