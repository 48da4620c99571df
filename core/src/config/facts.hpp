// facts.hpp: a configuration in the answer of a running role to `broker config show --running` and `config diff`.
#pragma once

#include <boost/json/object.hpp>

#include <vector>

#include "config/config.hpp"
#include "config/values_of.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::config {

/// {"folder", "digest", "from", "values": {key: value, ...}, "next"}: a piece of values_of(config) that fits into one
/// control frame with other facts beside it. `request` is the control command: its "from" (a number, 0 when missing)
/// says which value to begin with; "next", when it is there, is the "from" of the next piece. All values are texts.
boost::json::object config_facts(const Config& config, const boost::json::object& request = {});

/// The values of one answer, in its order, added to `values`; the next piece's "from", 0 when that was the last.
/// Errors: bad_frame.
Outcome<std::uint64_t> add_values(const boost::json::object& facts, std::vector<Value>& values);

}  // namespace gearbox::config
