// spool_command.hpp: `pi_client spool add`, `list` and `drop`.
#pragma once

#include "send_command.hpp"

namespace gearbox::client {

/// Each returns the exit code: 0 all done, 1 something was refused or not there, 2 the spool cannot be used.
int run_spool_add(const SpoolOptions& options, Console& console);
int run_spool_list(const SpoolOptions& options, Console& console);
int run_spool_drop(const SpoolOptions& options, Console& console);

}  // namespace gearbox::client
