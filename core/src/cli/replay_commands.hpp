// replay_commands.hpp: the parts of `broker replay` that have files of their own.
#pragma once

#include "cli/context.hpp"

namespace gearbox::cli {

void add_replay_gate_command(CLI::App& replay, CliContext& context);
void add_replay_record_command(CLI::App& replay, CliContext& context);
void add_replay_trace_commands(CLI::App& replay, CliContext& context);  // convert, calibration

}  // namespace gearbox::cli
