// send_command.hpp: `pi_client send`: one Delivery, its progress bar, its signals and its output.
#pragma once

#include <string>

#include "node_link.hpp"
#include "options.hpp"
#include "report.hpp"

namespace gearbox::client {

/// Where output goes; tests put strings here. Called on one thread.
struct Console {
  virtual ~Console() = default;
  virtual void results(const std::string& text) = 0;  // standard output
  virtual void remarks(const std::string& text) = 0;  // standard error
};

/// Writes one report to `console` the way `options` ask for, binary results to files. Returns false when it failed.
bool print_report(Report report, const SendOptions& options, bool several, Console& console);

/// Returns the exit code: 0 when every request was answered, 1 when one failed, 2 when this device has no key.
int run_send(const Options& options, const LinkSettings& settings, plugin::Transport& transport, Console& console);

}  // namespace gearbox::client
