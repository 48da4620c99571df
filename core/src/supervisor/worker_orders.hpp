// worker_orders.hpp: what a node asks of its supervisor about its workers: see orders.hpp.
#pragma once

#include <boost/json/object.hpp>

#include <optional>
#include <string_view>

#include "gearbox/base/outcome.hpp"
#include "supervisor/children.hpp"

namespace gearbox::supervisor {

/// launch, stop, limit, ended, workers; empty: `command` is another one. On the strand of `children`.
/// Errors: bad_input, bad_name, no_space, not_allowed (no worker), not_found.
std::optional<Outcome<boost::json::object>> answer_about_workers(Children& children, std::string_view command,
                                                                 const boost::json::object& request);

}  // namespace gearbox::supervisor
