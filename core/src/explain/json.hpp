// json.hpp: a trace as the facts of `broker explain`, in pieces that fit into one control frame.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>

#include "explain/trace.hpp"

namespace gearbox::explain {

/// {"request", "device", "task", ..., "steps": [...], "from", "next"}: as many steps as fit, from number `from` on;
/// "next", when it is there, is the "from" of the next piece. Times in microseconds; `now`: for what is not over.
boost::json::object to_json(const Trace& trace, std::uint64_t from, Instant now);

}  // namespace gearbox::explain
