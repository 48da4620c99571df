// enrol_command.hpp: `pi_client enrol` and `pi_client key show`.
#pragma once

#include "options.hpp"

namespace gearbox::client {

/// Prints what happened; returns the exit code.
int run_enrol(const Options& options);
int run_show_key(const Options& options);

}  // namespace gearbox::client
