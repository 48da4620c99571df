// plugin_commands.hpp: the parts of `broker plugins`.
#pragma once

#include "cli/context.hpp"
#include "cli/plugin_rows.hpp"

namespace gearbox::cli {

void add_plugin_sign_command(CLI::App& group, CliContext& context);   // sign
void add_plugin_book_commands(CLI::App& group, CliContext& context);  // rollback, release

/// What a role would have if it started now. Errors: bad_config, bad_plugin, io_error as PluginHost::open.
Outcome<RolePlugins> at_next_start(const config::Config& config, const config::StateDir& state);

}  // namespace gearbox::cli
