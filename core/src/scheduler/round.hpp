// round.hpp: one round of decisions, without asking anybody: the same here, in the benchmark and in replay.
#pragma once

#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/gear.hpp"
#include "scheduler/decision.hpp"
#include "scheduler/governor.hpp"
#include "scheduler/view.hpp"

namespace gearbox::scheduler {

/// The policy proposes, the governor disposes. Errors: the policy's; nothing is shifted then.
Outcome<std::vector<Decision>> decide(const View& view, plugin::GearPolicy& policy, const Rules& rules,
                                      std::uint16_t minute, Instant now);

}  // namespace gearbox::scheduler
