// status.hpp: the facts that `broker status` shows of a central.
#pragma once

#include <boost/json/object.hpp>

#include "central/server_state.hpp"
#include "serving/accept_loop.hpp"

namespace gearbox::central {

boost::json::object status_of(const ServerState& state, const serving::AcceptLoop::Counters& accepting, Instant now);

}  // namespace gearbox::central
