// bench_gears: how long one decision of a scheduler takes: the view of a snapshot, the cost model, the governor.
//
//   bench_gears [GROUPS] [ROUNDS]        prints JSON: microseconds
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "gear/cost_model.hpp"
#include "scheduler/round.hpp"

namespace {

using namespace gearbox;

/// Groups of eight models, on eight ranks each, in all gears, under loads that differ.
gear_facts::Snapshot snapshot_of(std::size_t groups, std::size_t round) {
  gear_facts::Snapshot snapshot;
  for (std::size_t i = 0; i < groups; ++i) {
    gear_facts::GroupFacts facts;
    facts.name = "group-" + std::to_string(i);
    facts.model = "model-" + std::to_string(i % 8);
    facts.phase = "running";
    facts.gear = static_cast<std::uint8_t>(1 + i % 6);
    facts.ranks = 8;
    facts.running = 20;
    facts.cached_tokens = 10'000 + i;
    facts.shape = {
        .layers = 32, .width = 4096, .heads = 32, .kv_heads = 32, .head_width = 128, .parameters = 6'740'000'000};
    facts.has_load = true;
    facts.fast = {2.0 + static_cast<double>((i + round) % 7), 872, 218};
    facts.slow = {3, 872, 218};
    facts.recent.assign(15, {3.5, 872, 218});
    facts.link_slowdown = 1 + static_cast<double>(i % 3);
    snapshot.groups.push_back(std::move(facts));
  }
  return snapshot;
}

/// Of this thread: what it takes on a machine that is busy with other things as well.
double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t groups = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const std::size_t rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 50;
  if (groups == 0 || rounds == 0) {
    std::fprintf(stderr, "usage: bench_gears [GROUPS] [ROUNDS]\n");
    return 2;
  }
  config::GearsConfig gears;
  gears.card = "a100-80g";
  gears.at_once = 1000;
  const std::vector<gear_facts::GroupRecord> records;
  scheduler::Misfits misfits;
  scheduler::GroupNumbers numbers;
  gear::CostModel policy{gear::CostModelLimits()};
  const scheduler::Rules rules = scheduler::rules_of(gears);
  std::vector<double> took;
  std::vector<double> computed;
  std::size_t decisions = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const gear_facts::Snapshot snapshot = snapshot_of(groups, round);
    const Instant begun = Clock::now();
    const double cpu = cpu_us();
    scheduler::ViewInputs inputs;
    inputs.hosts = {{.snapshot = &snapshot, .records = &records}};
    inputs.gears = &gears;
    inputs.misfits = &misfits;
    const scheduler::View view(inputs, numbers, begun);
    const auto decided = scheduler::decide(view, policy, rules, 0, begun);
    took.push_back(static_cast<double>(elapsed(begun, Clock::now()).count()));
    computed.push_back(cpu_us() - cpu);
    if (!decided) {
      std::fprintf(stderr, "bench_gears: %s\n", decided.error().detail.c_str());
      return 1;
    }
    decisions += decided.value().size();
  }
  std::sort(took.begin(), took.end());
  std::sort(computed.begin(), computed.end());
  std::printf(
      "{\"gears_groups\": %zu, \"gears_decision_us_p50\": %.0f, \"gears_decision_us_max\": %.0f, "
      "\"gears_decision_cpu_us_p50\": %.0f, \"gears_decisions\": %zu}\n",
      groups, took[took.size() / 2], took.back(), computed[computed.size() / 2], decisions);
  return 0;
}
