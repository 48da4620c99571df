// context.hpp: what every subcommand of `broker` shares: where configuration and state lie, how facts are printed, exit
// codes.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // the work failed
inline constexpr int kUsage = 2;   // wrong usage or configuration

/// One run of the program; filled by the command line, used by the subcommand that runs. One thread.
struct CliContext {
  std::filesystem::path config_dir;  // --config; empty: default_config_dir()
  std::filesystem::path state_dir;   // --state; empty: see config::open_state_dir
  bool json = false;                 // --json: facts as JSON on stdout
  int exit_code = kDone;             // what main returns
};

/// configs/ in the working folder when it is there, else /etc/gearbox.
std::filesystem::path default_config_dir();

/// Adds subcommand `name` to `parent` with --config and --state (and --json when it prints facts), and an example below
/// its help.
CLI::App* add_command(CLI::App& parent, CliContext& context, const std::string& name, const std::string& summary,
                      const std::string& example, bool prints_facts);

/// Prints "broker: DETAIL" on stderr and sets the exit code: kUsage for bad_config and bad_name, kFailed otherwise.
void fail(CliContext& context, const Error& error);

/// The configuration of --config. Errors: bad_config.
Outcome<config::Snapshot> load_config(const CliContext& context);
/// The state folder of --state. Errors: io_error.
Outcome<config::StateDir> open_state(const CliContext& context);

/// True when stdout is a terminal and NO_COLOR is not set.
bool colour_wanted();

}  // namespace gearbox::cli
