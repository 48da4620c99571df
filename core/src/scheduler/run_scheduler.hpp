// run_scheduler.hpp: the process of the role scheduler.
#pragma once

#include <filesystem>

#include "config/state_dir.hpp"

namespace gearbox::scheduler {

/// Returns the exit code: see gear_facts::run_role.
int run_scheduler(const config::StateDir& state, const std::filesystem::path& config_folder);

}  // namespace gearbox::scheduler
