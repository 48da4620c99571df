// replay_options.hpp: what the replay commands share: which traffic on which cluster, and under which rules.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"
#include "replay/experiment.hpp"

namespace gearbox::cli {

struct ReplayTraffic {
  std::string trace, cluster;
  std::vector<std::string> models;
  std::string balancer;  // empty: the configuration's
  unsigned seeds = 1;
  unsigned long first_seed = 0;
  double speed = 1;
  unsigned copies = 1;
  double slo_first_token_ms = 2000, slo_per_token_ms = 100;
};

/// --trace, --cluster, --model, --balancer, --seeds, --seed, --speed and the SLO's.
void add_traffic_options(CLI::App& command, ReplayTraffic& traffic);

/// What --config tells; the defaults without it.
struct ReplaySetting {
  config::GearsConfig gears;
  config::PluginsConfig plugins;
  std::string central_balancer = "least_loaded";  // picks nodes: of a decoder's groups
  std::string node_balancer = "least_loaded";     // picks workers: of a pipeline's cards
};
Outcome<ReplaySetting> replay_setting_of(const CliContext& context);
Outcome<ReplaySetting> replay_setting_of(const std::filesystem::path& folder);

/// Reads the files. Errors: bad_config, bad_input, not_found ...
Outcome<replay::Experiment> experiment_of(const ReplayTraffic& traffic, const ReplaySetting& setting);

}  // namespace gearbox::cli
