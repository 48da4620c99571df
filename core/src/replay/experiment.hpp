// experiment.hpp: several contenders over the same traffic on the same cluster, several seeds each, and what they gave.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/simulator.hpp"
#include "replay/trace.hpp"

namespace gearbox::replay {

/// Makes plugins; each run gets new ones, since they may keep state.
struct PluginMakers {
  std::function<Outcome<std::shared_ptr<plugin::GearPolicy>>(const std::string& name)> policy;
  std::function<Outcome<std::shared_ptr<plugin::Balancer>>(const std::string& name)> balancer;
};

/// Something to compare.
struct Contender {
  std::string name;                 // as it is shown
  std::string policy;               // a gear plugin; empty: no shifts
  std::vector<std::uint8_t> gears;  // at the beginning, by node set; 0 or missing: the cluster's
};

struct Experiment {
  Cluster cluster;
  std::vector<Model> models;
  std::optional<Trace> trace;  // one of the two
  std::optional<Workload> workload;
  double speed = 1;          // of the trace
  std::uint32_t copies = 1;  // requests for each of the trace
  std::string balancer = "least_loaded";
  scheduler::Rules rules;
  double interval_s = 1;
  Slo slo;
  std::uint32_t seeds = 1;
  std::uint64_t first_seed = 0;
  bool saturation = false;  // run each contender's first seed with all at once, too
};

/// A mean over seeds, with the 95 % confidence interval of it (Student's t); equal to the mean with one seed.
struct Figure {
  double mean = 0, low = 0, high = 0;
};

struct Scored {
  Contender contender;
  std::vector<std::pair<std::string, Figure>> figures;  // in the order of names_of_figures(), those that there are
  Result first;                                         // of the first seed, with its plots
  std::vector<double> p99s;                             // by seed

  double figure(const std::string& name) const;  // its mean; 0 when there is none
};

/// Called between runs: how many are over, of how many.
using Progress = std::function<void(std::size_t over, std::size_t all)>;

/// A load of the workload becomes a rate: a share of what the cluster carries of the reference mix while everything
/// waits, in the single gear that carries most, as simulated. Errors: bad_input.
Outcome<void> settle_rate(Experiment& experiment, const PluginMakers& makers);

Outcome<Result> run_once(const Experiment& experiment, const Contender& contender, const PluginMakers& makers,
                         std::uint64_t seed, bool keep_plots, bool keep_ended = false);

Outcome<Scored> score(const Experiment& experiment, const Contender& contender, const PluginMakers& makers,
                      const std::function<void()>& ran);

Outcome<std::vector<Scored>> compare(const Experiment& experiment, const std::vector<Contender>& contenders,
                                     const PluginMakers& makers, const Progress& progress);

/// The figures of one run by name.
std::vector<std::pair<std::string, double>> figures_of(const Result& result);

}  // namespace gearbox::replay
