// run_central.hpp: the process of the role central.
#pragma once

#include <filesystem>
#include <string>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

struct StandbySettings {
  bool waits = false;              // another one serves this state folder: wait for its end; else that is an error
  std::string called = "central";  // names the record of the plugin that is being called: one for each process
};

/// Can a standby take over at this configuration's address? Errors: bad_config.
Outcome<void> check_standby(const config::Config& config);

/// Configuration, plugins, accounts, server, control socket; runs until SIGTERM or SIGINT (a second one hurries).
/// Returns the exit code: 0 after a signal; 2 when it cannot start and starting again will not help; 1 when it may.
int run_central(const config::StateDir& state, const std::filesystem::path& config_folder,
                const StandbySettings& settings = {});

}  // namespace gearbox::central
