// run_executor.hpp: the process of the role executor.
#pragma once

#include <filesystem>

#include "config/state_dir.hpp"

namespace gearbox::executor {

/// Returns the exit code: see gear_facts::run_role.
int run_executor(const config::StateDir& state, const std::filesystem::path& config_folder);

}  // namespace gearbox::executor
