// run_central.hpp: the process of the role central.
#pragma once

#include <filesystem>

#include "config/state_dir.hpp"

namespace gearbox::central {

/// Configuration, plugins, accounts, server, control socket; runs until SIGTERM or SIGINT (a second one hurries).
/// Returns the exit code: 0 after a signal; 2 when it cannot start and starting again will not help; 1 when it may.
int run_central(const config::StateDir& state, const std::filesystem::path& config_folder);

}  // namespace gearbox::central
