// run_observer.hpp: the process of the role observer.
#pragma once

#include <filesystem>

#include "config/state_dir.hpp"

namespace gearbox::observer {

/// Returns the exit code: see gear_facts::run_role.
int run_observer(const config::StateDir& state, const std::filesystem::path& config_folder);

}  // namespace gearbox::observer
