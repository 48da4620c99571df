// Against what queueing theory says in closed form.
#include <cmath>

#include "scene.hpp"

namespace gearbox::replay {
namespace {

constexpr double kService = 0.010;  // seconds

Cluster servers(int count) {
  return cluster_of("[[nodes]]\nname = 'n'\ncard = 'cpu'\ncards = " + std::to_string(count) + "\n");
}

Model service(const std::string& spread) {
  return model_of("name = 'm'\nkind = 'pipeline'\nprefetch = 0\n[[steps]]\nname = 's'\nper_item_ms = 10\nspread = '" +
                  spread + "'\n");
}

/// Mean time in the system over some seeds, of Poisson arrivals at `load`.
double mean_s(int count, const std::string& spread, double load) {
  const Cluster cluster = servers(count);
  const Model model = service(spread);
  double sum = 0;
  constexpr int kSeeds = 4;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const double rate = load * count / kService;
    const auto source = made("make:steady,rate=" + std::to_string(rate) + ",duration=" + std::to_string(150'000 / rate),
                             static_cast<std::uint64_t>(seed));
    Scenario scenario;
    scenario.seed = static_cast<std::uint64_t>(seed);
    sum += run(scenario, cluster, model, *source).latency.mean();
  }
  return sum / kSeeds;
}

TEST(Queues, OneServerOfEvenTimesWaitsAsTheFormulaSays) {
  for (const double load : {0.3, 0.6, 0.8}) {
    const double waiting = mean_s(1, "none", load) - kService;
    const double formula = load * kService / (2 * (1 - load));  // M/D/1
    EXPECT_NEAR(waiting, formula, 0.03 * formula) << "load " << load;
  }
}

/// Erlang's C: how probable it is to wait.
double erlang_c(int servers, double offered) {
  double term = 1;
  double sum = 1;
  for (int k = 1; k < servers; ++k) sum += term *= offered / k;
  term *= offered / servers;
  const double all_busy = term / (1 - offered / servers);
  return all_busy / (sum + all_busy);
}

TEST(Queues, SeveralServersWaitAsErlangSays) {
  for (const int servers : {1, 4, 16}) {
    for (const double load : {0.5, 0.8}) {
      const double formula = erlang_c(servers, servers * load) * kService / (servers * (1 - load));  // M/M/c
      const double waiting = mean_s(servers, "exponential", load) - kService;
      EXPECT_NEAR(waiting, formula, 0.05 * formula + 0.005 * kService) << servers << " servers, load " << load;
    }
  }
}

/// One replica, one request at a time, equal requests: a decoder is an M/D/1 queue, too.
TEST(Queues, ADecoderWithoutBatchesWaitsAsTheFormulaSays) {
  const Cluster cluster = cluster_of("[[nodes]]\nname = 'n'\ncard = 'a100-80g'\ncards = 1\n");
  Model model = seven_billion();
  model.max_batch = 1;
  Trace one;
  Arrival arrival;
  arrival.input_tokens = 100;
  arrival.output_tokens = 20;
  one.arrivals = {arrival};
  const double alone = run(in_gear(1), cluster, model, *source_of(one, 1, 0)).latency.mean();
  for (const double load : {0.3, 0.6, 0.8}) {
    double sum = 0;
    constexpr int kSeeds = 3;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const double rate = load / alone;
      const auto times = made("make:steady,rate=" + std::to_string(rate) + ",duration=" + std::to_string(60'000 / rate),
                              static_cast<std::uint64_t>(seed));
      Trace trace;
      for (Nanos at = times->next_at(0); at != kNever; at = times->next_at(at)) {
        times->take();
        arrival.at = at;
        trace.arrivals.push_back(arrival);
      }
      sum += run(in_gear(1), cluster, model, *source_of(trace, 1, 0)).latency.mean();
    }
    const double formula = load * alone / (2 * (1 - load));
    EXPECT_NEAR(sum / kSeeds - alone, formula, 0.04 * formula) << "load " << load;
  }
}

}  // namespace
}  // namespace gearbox::replay
