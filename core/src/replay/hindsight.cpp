#include "replay/hindsight.hpp"

#include <algorithm>
#include <map>

#include "gearbox/gears/price.hpp"

namespace gearbox::replay {

namespace {

constexpr double kWindow = 20;        // seconds
constexpr std::size_t kMostSets = 4;  // more would need too many layouts

/// Gears that the set's cards can hold.
std::vector<std::uint8_t> gears_of(const Experiment& experiment, const NodeSet& set) {
  std::vector<std::uint8_t> all;
  const Model& model = experiment.models.front();
  for (std::uint8_t gear = 1; gear <= gears::kGears; ++gear) {
    const auto layout = gears::layout_of(gear, set.cards / set.groups, model.shape);
    if (layout && gears::cache_tokens_of(model.shape, set.card, *layout, experiment.cluster.memory_share) >= 1)
      all.push_back(gear);
  }
  return all;
}

std::string name_of(const Experiment& experiment, const std::vector<std::uint8_t>& gears) {
  std::string name;
  for (std::size_t i = 0; i < gears.size(); ++i)
    name += (i == 0 ? "" : ", ") + experiment.cluster.sets[i].name + " " + std::to_string(gears[i]);
  return name;
}

/// p99s of layouts, each run once.
class Tried {
 public:
  Tried(const Experiment& experiment, const PluginMakers& makers) : experiment_(experiment), makers_(makers) {}

  Outcome<double> p99(const std::vector<std::uint8_t>& gears) {
    const std::string key(gears.begin(), gears.end());  // g++ 12 takes the comparing of byte vectors for an overrun
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Contender contender;
    contender.gears = gears;
    BOOST_OUTCOME_TRY(const Result result, run_once(experiment_, contender, makers_, experiment_.first_seed, false));
    // One that cannot take all of it is no answer.
    const double p99 = result.refused + result.unfinished > 0 ? 1e12 : result.latency.quantile(0.99);
    known_.emplace(key, p99);
    return p99;
  }

 private:
  const Experiment& experiment_;
  const PluginMakers& makers_;
  std::map<std::string, double> known_;  // by the gears of each node set
};

Outcome<std::vector<std::uint8_t>> best_single(const Experiment& experiment, Tried& tried) {
  std::vector<std::uint8_t> best;
  double least = 1e300;
  for (std::uint8_t gear = 1; gear <= gears::kGears; ++gear) {
    const std::vector<std::uint8_t> gears(experiment.cluster.sets.size(), gear);
    BOOST_OUTCOME_TRY(const double p99, tried.p99(gears));
    if (p99 >= least) continue;
    least = p99;
    best = gears;
  }
  return best;
}

}  // namespace

Outcome<Contender> best_gear(const Experiment& experiment, const PluginMakers& makers) {
  Tried tried(experiment, makers);
  BOOST_OUTCOME_TRY(const auto gears, best_single(experiment, tried));
  Contender best;
  best.gears = gears;
  best.name = "best gear (" + std::to_string(gears.front()) + ")";
  return best;
}

Outcome<Contender> best_layout(const Experiment& experiment, const PluginMakers& makers) {
  Tried tried(experiment, makers);
  BOOST_OUTCOME_TRY(std::vector<std::uint8_t> gears, best_single(experiment, tried));
  BOOST_OUTCOME_TRY(double least, tried.p99(gears));
  for (bool lowered = true; lowered;) {
    lowered = false;
    for (std::size_t set = 0; set < gears.size(); ++set) {
      for (const std::uint8_t gear : gears_of(experiment, experiment.cluster.sets[set])) {
        std::vector<std::uint8_t> changed = gears;
        changed[set] = gear;
        BOOST_OUTCOME_TRY(const double p99, tried.p99(changed));
        if (p99 >= least) continue;
        least = p99;
        gears = changed;
        lowered = true;
      }
    }
  }
  Contender best;
  best.gears = gears;
  best.name = "best fixed (" + name_of(experiment, gears) + ")";
  return best;
}

Outcome<Clairvoyant> clairvoyant(const Experiment& experiment, const PluginMakers& makers, std::uint64_t seed) {
  const std::vector<NodeSet>& sets = experiment.cluster.sets;
  std::vector<std::vector<std::uint8_t>> layouts = {{}};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::vector<std::uint8_t> gears = gears_of(experiment, sets[i]);
    std::vector<std::vector<std::uint8_t>> longer;
    for (const std::vector<std::uint8_t>& layout : layouts) {
      for (const std::uint8_t gear : gears) {
        if (i >= kMostSets && gear != layout.back()) continue;
        longer.push_back(layout);
        longer.back().push_back(gear);
      }
    }
    layouts.swap(longer);
  }
  struct Window {
    double p99 = 1e300;
    std::vector<double> latencies;
  };
  std::map<std::int64_t, Window> windows;
  Clairvoyant found;
  found.layouts = layouts.size();
  for (const std::vector<std::uint8_t>& gears : layouts) {
    Contender contender;
    contender.gears = gears;
    BOOST_OUTCOME_TRY(const Result result, run_once(experiment, contender, makers, seed, false, true));
    if (result.refused + result.unfinished > 0) continue;
    std::map<std::int64_t, std::vector<double>> its;
    for (const Ended& ended : result.ended)
      its[static_cast<std::int64_t>(in_seconds(ended.arrived) / kWindow)].push_back(ended.latency_s);
    for (auto& [number, latencies] : its) {
      std::sort(latencies.begin(), latencies.end());
      const double p99 = latencies[static_cast<std::size_t>(0.99 * static_cast<double>(latencies.size() - 1))];
      Window& window = windows[number];
      if (p99 >= window.p99) continue;
      window.p99 = p99;
      window.latencies = latencies;
    }
  }
  Histogram all;
  for (const auto& [number, window] : windows) {
    for (const double latency : window.latencies) all.add(latency);
  }
  found.p99_s = all.quantile(0.99);
  found.mean_s = all.mean();
  return found;
}

}  // namespace gearbox::replay
