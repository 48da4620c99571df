// check_plugins.hpp: the part of a configuration that only the plugins can judge: their names and their options.
#pragma once

#include "config/config.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// Loads the plugins as a role would, in a folder of its own, and forgets them. Errors: bad_config, one line for each
/// fault: a plugin that is named and not there, an option that its plugin does not have or take; bad_plugin: the drop
/// folder cannot be trusted.
Outcome<void> check_plugins(const config::Config& config);

}  // namespace gearbox::cli
