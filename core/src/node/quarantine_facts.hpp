// quarantine_facts.hpp: the control command "quarantine": what is held, piece by piece, and letting one go.
#pragma once

#include <boost/json/object.hpp>

#include "gearbox/base/outcome.hpp"
#include "session/requests.hpp"

namespace gearbox::node {

///   {"command": "quarantine", "from": 0}               → {"total", "requests": [...]}: the newest first, some at a
///   time
///   {"command": "quarantine", "release": "3f2a9c01"}   → {"request"}: the whole id of the one let go
/// Errors: bad_input; not_found.
Outcome<boost::json::object> answer_quarantine(session::Requests& requests, const boost::json::object& request);

}  // namespace gearbox::node
