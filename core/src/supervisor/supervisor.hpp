// supervisor.hpp: the role that starts and reaps every process of one host: central, node and the node's workers.
#pragma once

#include <filesystem>
#include <string>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "serving/service_notify.hpp"

namespace gearbox::supervisor {

struct SupervisorSetup {
  config::StateDir state;
  std::filesystem::path config_folder;
  bool central = true;             // start central here
  bool standby = false;            // and a second one that waits for its end
  bool node = true;                // start the node here
  bool gears = false;              // and observer, executor and scheduler of its groups
  milliseconds node_drain{10000};  // how long the node drains, as long as it does not say so itself
  milliseconds worker_grace{5000};
  milliseconds central_grace{5000};
  milliseconds first_restart{500};  // pause before a role is started again; doubles up to longest_restart
  milliseconds longest_restart{30000};
  milliseconds steady{10000};      // a role that ran for so long begins with first_restart anew, as workers do
  serving::NotifySettings notify;  // whom to tell how it is
  std::uint64_t log_limit_bytes = 16ULL << 20;  // a log file past it is rotated, one old one is kept
};

/// Runs until SIGTERM or SIGINT (a second one hurries, a third one kills) or `broker drain`, or until a role cannot
/// start at all; then nothing of it is left. Returns the exit code: 0 after a signal; 1 when another supervisor holds
/// the state folder or it cannot be used; 2 when central or node refuse to start (their exit code 2: configuration, a
/// port in use).
int run_supervisor(const SupervisorSetup& setup);

}  // namespace gearbox::supervisor
