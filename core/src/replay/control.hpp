// control.hpp: the gear policy and the governor in a run: what they see, and what they decide.
//
// Policy plugin and governor are the ones that run live; what they see is made of the same figures, by the same meters
// (arrivals, samples, trust).
#pragma once

#include <vector>

#include "replay/site.hpp"
#include "scheduler/decision.hpp"
#include "scheduler/trust.hpp"

namespace gearbox::replay {

class Control {
 public:
  Control(const Scenario& scenario, Site& site);

  /// What an observer does once a second.
  void observe(Nanos now);
  /// Share of the time between the last two observations in which the group's replicas ran.
  double busy_of(std::uint32_t group) const { return busy_[group]; }
  /// One round: the shifts that may happen. The policy's error is kept in `result`, as is what was held back.
  std::vector<scheduler::Decision> decide(Nanos now, Result& result);

 private:
  void add_pools(Nanos now);
  void add_group(std::uint32_t index, Nanos now);
  double expected_pause(const Group& group) const;

  const Scenario& scenario_;
  Site& site_;
  std::vector<scheduler::Trust> trust_;  // by node
  std::vector<double> busy_;             // by group: share of the time since the observation before
  Nanos observed_at_ = 0;

  // The view of one round.
  std::vector<std::string> pool_names_;
  std::vector<std::vector<plugin::LoadView>> recent_;
  std::vector<plugin::PoolView> pools_;
  std::vector<std::vector<plugin::GearView>> gears_;
  std::vector<plugin::GroupView> views_;
  std::vector<scheduler::GroupRecord> records_;
};

/// Seconds that moving the caches of a group takes, each card sending its part.
double seconds_to_move(const Group& group);

}  // namespace gearbox::replay
