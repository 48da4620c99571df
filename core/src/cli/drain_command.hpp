// drain_command.hpp: the subcommand `drain`.
#pragma once

#include "cli/context.hpp"

namespace gearbox::cli {

void add_drain_command(CLI::App& app, CliContext& context);

}  // namespace gearbox::cli
