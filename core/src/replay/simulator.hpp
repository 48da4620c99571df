// simulator.hpp: one run: requests come, a balancer plugin picks groups, groups serve them, a gear policy plugin and
// the governor shift gears; all on a simulated clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/gear.hpp"
#include "replay/cluster.hpp"
#include "replay/model.hpp"
#include "replay/result.hpp"
#include "replay/workload.hpp"
#include "scheduler/governor.hpp"

namespace gearbox::replay {

/// What a run is made of. Everything pointed to outlives it.
struct Scenario {
  const Cluster* cluster = nullptr;
  std::vector<const Model*> models;       // at least one; all decoders or all pipelines
  std::vector<std::string> model_names;   // of Arrival::model; empty: the first model
  std::vector<std::string> tenant_names;  // of Arrival::tenant
  plugin::Balancer* balancer = nullptr;
  plugin::GearPolicy* policy = nullptr;  // null: each group stays in its gear
  scheduler::Rules rules;
  double interval_s = 1;            // from one round of decisions to the next
  std::vector<std::uint8_t> gears;  // at the beginning, one for each node set; 0: the cluster's
  Slo slo;
  std::uint64_t seed = 0;  // of what the run itself draws: spreads of steps
  bool keep_ended = false;
  bool keep_plots = true;
  bool one_by_one = false;  // each decode step is an event. For tests.
};

/// Runs until all that came has ended. Errors: bad_input: models and cluster do not fit each other.
Outcome<Result> simulate(const Scenario& scenario, Source& source);

}  // namespace gearbox::replay
