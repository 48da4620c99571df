#include "cli/replay_options.hpp"

#include <utility>

namespace gearbox::cli {

void add_traffic_options(CLI::App& command, ReplayTraffic& traffic) {
  command.add_option("--trace", traffic.trace, "recorded traffic, or make:WORKLOAD (below)")
      ->required()
      ->type_name("FILE|make:...");
  command.add_option("--cluster", traffic.cluster, "the cluster, as TOML")->required()->type_name("FILE");
  command.add_option("--model", traffic.models, "the model, as TOML; may be repeated")->required()->type_name("FILE");
  command
      .add_option("--balancer", traffic.balancer, "a balancer plugin (default: least_loaded, or the configuration's)")
      ->type_name("NAME");
  command.add_option("--seeds", traffic.seeds, "runs with different seeds (default: 1)")->check(CLI::Range(1, 1000));
  command.add_option("--seed", traffic.first_seed, "the first seed (default: 0)");
  command.add_option("--speed", traffic.speed, "a recording comes so many times faster (default: 1)")
      ->check(CLI::Range(1e-3, 1e4));
  command
      .add_option(
          "--copies", traffic.copies,
          "so many requests for each of a recording, some seconds apart: more load at the same pace (default: 1)")
      ->check(CLI::Range(1, 10000));
  command
      .add_option("--slo-first-token-ms", traffic.slo_first_token_ms,
                  "a request is good when its first token came within (default: 2000)")
      ->check(CLI::Range(0.0, 1e9));
  command
      .add_option("--slo-per-token-ms", traffic.slo_per_token_ms,
                  "and each further one on average within (default: 100)")
      ->check(CLI::Range(0.0, 1e9));
}

Outcome<ReplaySetting> replay_setting_of(const std::filesystem::path& folder) {
  BOOST_OUTCOME_TRY(const config::Snapshot config, config::load(folder));
  ReplaySetting setting;
  setting.gears = config->gears;
  setting.plugins = config->plugins;
  setting.central_balancer = config->central.balancer;
  setting.node_balancer = config->node.balancer;
  return setting;
}

Outcome<ReplaySetting> replay_setting_of(const CliContext& context) {
  if (context.config_dir.empty()) return ReplaySetting();
  return replay_setting_of(context.config_dir);
}

Outcome<replay::Experiment> experiment_of(const ReplayTraffic& traffic, const ReplaySetting& setting) {
  replay::Experiment experiment;
  BOOST_OUTCOME_TRY(experiment.cluster, replay::read_cluster(traffic.cluster));
  for (const std::string& file : traffic.models) {
    BOOST_OUTCOME_TRY(replay::Model model, replay::read_model(file));
    experiment.models.push_back(std::move(model));
  }
  if (traffic.trace.rfind("make:", 0) == 0) {
    BOOST_OUTCOME_TRY(experiment.workload, replay::read_workload(traffic.trace));
  } else {
    BOOST_OUTCOME_TRY(experiment.trace, replay::read_trace(traffic.trace));
  }
  experiment.speed = traffic.speed;
  experiment.copies = traffic.copies;
  const bool decoder = experiment.models.front().kind == replay::Model::Kind::decoder;
  experiment.balancer = decoder ? setting.central_balancer : setting.node_balancer;
  if (!traffic.balancer.empty()) experiment.balancer = traffic.balancer;
  experiment.rules = scheduler::rules_of(setting.gears);
  experiment.interval_s = static_cast<double>(setting.gears.interval.count()) / 1000;
  experiment.slo.first_token_s = traffic.slo_first_token_ms / 1000;
  experiment.slo.per_token_s = traffic.slo_per_token_ms / 1000;
  experiment.seeds = traffic.seeds;
  experiment.first_seed = traffic.first_seed;
  return experiment;
}

}  // namespace gearbox::cli
