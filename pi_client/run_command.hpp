// run_command.hpp: `pi_client run`: one SpoolUpload, a thread that captures, signals, and the answers' file.
#pragma once

#include "send_command.hpp"

namespace gearbox::client {

/// What run_spooled returns when the process is to begin anew with the same words: somebody asked for that from afar.
inline constexpr int kRunAgain = -1;

/// Returns the exit code, or kRunAgain: 0 ended in order; 1 the spool is in use or cannot be used; 2 no device key, or
/// wrong usage.
int run_spooled(const Options& options, const LinkSettings& settings, plugin::Transport& transport, Console& console);

}  // namespace gearbox::client
