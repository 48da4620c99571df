// run_command.hpp: `pi_client run`: one SpoolUpload, a thread that captures, signals, and the answers' file.
#pragma once

#include "send_command.hpp"

namespace gearbox::client {

/// Returns the exit code: 0 ended in order; 1 the spool is in use or cannot be used; 2 no device key, or wrong usage.
int run_spooled(const Options& options, const LinkSettings& settings, plugin::Transport& transport, Console& console);

}  // namespace gearbox::client
