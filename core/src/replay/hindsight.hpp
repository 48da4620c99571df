// hindsight.hpp: what nobody can have live: the best fixed gears for a traffic that is known, and a bound on what any
// policy could do.
#pragma once

#include "replay/experiment.hpp"

namespace gearbox::replay {

/// The single gear for all groups with the lowest p99 (at the experiment's first seed).
Outcome<Contender> best_gear(const Experiment& experiment, const PluginMakers& makers);

/// The gear for each node set with the lowest p99: from the best single gear, one set after the other, until no
/// set's change lowers it.
Outcome<Contender> best_layout(const Experiment& experiment, const PluginMakers& makers);

/// A yardstick: for the requests that arrive in each window of 20 s the figures of that fixed layout which
/// serves the window best (lowest p99 in it; its own past is part of it), as if changes cost nothing.
struct Clairvoyant {
  double p99_s = 0, mean_s = 0;
  std::size_t layouts = 0;  // that were tried
};
Outcome<Clairvoyant> clairvoyant(const Experiment& experiment, const PluginMakers& makers, std::uint64_t seed);

}  // namespace gearbox::replay
