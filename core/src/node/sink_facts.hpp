// sink_facts.hpp: how the sinks do, for `broker status`.
#pragma once

#include <boost/json/object.hpp>

#include "sinks/outbox.hpp"

namespace gearbox::node {

boost::json::object sink_facts(const sinks::Facts& facts);

}  // namespace gearbox::node
