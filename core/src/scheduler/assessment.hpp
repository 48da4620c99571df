// assessment.hpp: what bounds a group at its load: computing, memory, or communication.
#pragma once

#include <span>

#include "gearbox/plugin/gear.hpp"
#include "scheduler/decision.hpp"

namespace gearbox::scheduler {

/// By the price of a step in the group's gear with what runs there now.
Assessment assess(const plugin::GroupView& group, std::span<const plugin::PoolView> pools);

}  // namespace gearbox::scheduler
