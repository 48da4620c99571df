// plugins_json.hpp: plugins as the roles tell of them in their status.
#pragma once

#include <boost/json/array.hpp>

#include <vector>

#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

/// [{"name","kind","version","summary","checksum","state","reason","shipped","file","since_unix_ms","calls","faults",
/// Those that serve, and at most 48 of the others (refused, barred, shadowed, retiring).
///   "p99_us","options":[{"key","default","unit","help"}]}]
boost::json::array plugins_json(const std::vector<PluginInfo>& plugins);

}  // namespace gearbox::plugin_host
