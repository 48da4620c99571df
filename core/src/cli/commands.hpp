// commands.hpp: each file *_commands.cpp adds its subcommands to the program; main.cpp calls them in the order of
// --help.
#pragma once

#include "cli/context.hpp"

namespace gearbox::cli {

void add_role_commands(CLI::App& app, CliContext& context);        // up, the roles, supervisor
void add_status_commands(CLI::App& app, CliContext& context);      // status, shm
void add_metrics_command(CLI::App& app, CliContext& context);      // metrics
void add_submit_command(CLI::App& app, CliContext& context);       // submit
void add_plugin_commands(CLI::App& app, CliContext& context);      // plugins list|check|sign|rollback|release
void add_config_commands(CLI::App& app, CliContext& context);      // config check|show
void add_doctor_command(CLI::App& app, CliContext& context);       // doctor
void add_accounts_commands(CLI::App& app, CliContext& context);    // users, nodes, keys, device
void add_results_commands(CLI::App& app, CliContext& context);     // results list|get
void add_quarantine_commands(CLI::App& app, CliContext& context);  // quarantine list|show|release
void add_explain_command(CLI::App& app, CliContext& context);      // explain
void add_gear_commands(CLI::App& app, CliContext& context);        // gear show|set|release|allow|history|explain
void add_replay_commands(CLI::App& app, CliContext& context);      // replay run|gate|convert|calibration

}  // namespace gearbox::cli
