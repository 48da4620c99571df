// run_node.hpp: the node's role: one GPU host's broker.
#pragma once

#include <filesystem>

#include "config/state_dir.hpp"

namespace gearbox::node {

/// Runs until SIGTERM or SIGINT: says so to central, takes nothing new, finishes what runs within a bound, ends its
/// workers. A second signal hurries. Returns the exit code: 0 stopped in order; 1 could not start for a reason that may
/// pass; 2 the configuration is wrong or a port is taken: starting again will not help.
int run_node(const config::StateDir& state, const std::filesystem::path& config_folder);

}  // namespace gearbox::node
