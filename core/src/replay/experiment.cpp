#include "replay/experiment.hpp"

#include <algorithm>
#include <cmath>

namespace gearbox::replay {

namespace {

constexpr std::size_t kBacklog = 20'000;     // requests of a run at saturation
constexpr std::size_t kBacklogOfCard = 400;  // and so many for each card, at least

/// Student's t at 97.5 %, by degrees of freedom.
double t_of(std::size_t freedom) {
  static constexpr double kT[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                  2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  if (freedom == 0) return 0;
  return freedom <= std::size(kT) ? kT[freedom - 1] : 1.96 + 2.4 / static_cast<double>(freedom);
}

Figure figure_of(const std::vector<double>& values) {
  Figure figure;
  for (const double value : values) figure.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - figure.mean) * (value - figure.mean);
  const auto count = static_cast<double>(values.size());
  const double half = values.size() < 2 ? 0 : t_of(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
  figure.low = figure.mean - half;
  figure.high = figure.mean + half;
  return figure;
}

std::unique_ptr<Source> source_for(const Experiment& experiment, std::uint64_t seed) {
  if (experiment.trace) return source_of(*experiment.trace, experiment.speed, seed, experiment.copies);
  return source_of(*experiment.workload, seed);
}

Outcome<Result> run_with(const Experiment& experiment, const Contender& contender, const PluginMakers& makers,
                         Source& source, std::uint64_t seed, bool keep_plots, bool keep_ended) {
  Scenario scenario;
  scenario.cluster = &experiment.cluster;
  for (const Model& model : experiment.models) scenario.models.push_back(&model);
  if (experiment.trace) {
    scenario.model_names = experiment.trace->models;
    scenario.tenant_names = experiment.trace->tenants;
  }
  BOOST_OUTCOME_TRY(const auto balancer, makers.balancer(experiment.balancer));
  scenario.balancer = balancer.get();
  std::shared_ptr<plugin::GearPolicy> policy;
  if (!contender.policy.empty()) {
    BOOST_OUTCOME_TRY(policy, makers.policy(contender.policy));
    scenario.policy = policy.get();
  }
  scenario.rules = experiment.rules;
  scenario.interval_s = experiment.interval_s;
  scenario.gears = contender.gears;
  scenario.slo = experiment.slo;
  scenario.seed = seed;
  scenario.keep_plots = keep_plots;
  scenario.keep_ended = keep_ended;
  return simulate(scenario, source);
}

/// Requests a second while everything waits: between a fifth and four fifths of the ends.
Outcome<double> saturation_of(const Experiment& experiment, const Contender& contender, const PluginMakers& makers) {
  std::vector<Arrival> arrivals;
  const auto source = source_for(experiment, experiment.first_seed);
  Nanos now = 0;
  const std::size_t wanted = std::max(kBacklog, kBacklogOfCard * experiment.cluster.cards());
  while (arrivals.size() < wanted) {
    const Nanos at = source->next_at(now);
    if (at == kNever) {
      if (experiment.trace || experiment.workload->kind != "reference") break;
      source->ended(now);
      continue;
    }
    now = at;
    arrivals.push_back(source->take());
    source->ended(now);
  }
  const auto backlog = backlog_of(arrivals);
  BOOST_OUTCOME_TRY(const Result result,
                    run_with(experiment, contender, makers, *backlog, experiment.first_seed, false, true));
  if (result.ended.size() < 10) return 0.0;
  const auto time_of = [&](const Ended& ended) { return in_seconds(ended.arrived) + ended.latency_s; };
  const std::size_t from = result.ended.size() / 5;
  const std::size_t until = result.ended.size() * 4 / 5;
  const double seconds = time_of(result.ended[until]) - time_of(result.ended[from]);
  return seconds > 0 ? static_cast<double>(until - from) / seconds : 0.0;
}

}  // namespace

std::vector<std::pair<std::string, double>> figures_of(const Result& result) {
  std::vector<std::pair<std::string, double>> all;
  const auto add = [&](const char* name, double value) { all.emplace_back(name, value); };
  const auto distribution = [&](const std::string& name, const Histogram& times) {
    all.emplace_back(name + "mean_s", times.mean());
    all.emplace_back(name + "p50_s", times.quantile(0.5));
    all.emplace_back(name + "p95_s", times.quantile(0.95));
    all.emplace_back(name + "p99_s", times.quantile(0.99));
  };
  distribution("", result.latency);
  distribution("first_token_", result.first_token);
  if (result.per_token.count() > 0) distribution("per_token_", result.per_token);
  const double span = std::max(1e-9, result.span_s);
  add("requests_per_s", static_cast<double>(result.done) / span);
  add("output_tokens_per_s", static_cast<double>(result.output_tokens) / span);
  add("goodput_per_s", static_cast<double>(result.good) / span);
  add("good_share", result.arrived == 0 ? 0 : static_cast<double>(result.good) / static_cast<double>(result.arrived));
  add("busy_share", result.busy_share);
  double pause = 0;
  double cost = 0;
  for (const ShiftDone& shift : result.shifts) {
    pause += shift.pause_s;
    cost += shift.paused_requests_s;
  }
  add("shifts", static_cast<double>(result.shifts.size()));
  add("shift_pause_s", pause);
  add("shift_cost_request_s", cost);
  double all_gears = 0;
  for (const double seconds : result.gear_s) all_gears += seconds;
  for (std::size_t gear = 1; gear < result.gear_s.size() && all_gears > 0; ++gear)
    all.emplace_back("gear_" + std::to_string(gear) + "_share", result.gear_s[gear] / all_gears);
  add("arrived", static_cast<double>(result.arrived));
  add("done", static_cast<double>(result.done));
  add("refused", static_cast<double>(result.refused));
  add("retried", static_cast<double>(result.retried));
  add("unfinished", static_cast<double>(result.unfinished));
  add("request_steps", static_cast<double>(result.request_steps));
  return all;
}

double Scored::figure(const std::string& name) const {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const auto& each) { return each.first == name; });
  return found == figures.end() ? 0 : found->second.mean;
}

Outcome<void> settle_rate(Experiment& experiment, const PluginMakers& makers) {
  if (!experiment.workload || experiment.workload->load <= 0) return done();
  if (experiment.models.front().kind != Model::Kind::decoder)
    return Error{Errc::bad_input, "a load is told in the reference mix of a decoder; a pipeline needs a rate"};
  Experiment full = experiment;
  full.workload = Workload();
  full.workload->kind = "steady";
  full.workload->rate = 1000;  // all of it waits in any case
  double most = 0;
  for (std::uint8_t gear = 1; gear <= gears::kGears; ++gear) {
    Contender contender;
    contender.gears.assign(full.cluster.sets.size(), gear);
    BOOST_OUTCOME_TRY(const double carried, saturation_of(full, contender, makers));
    most = std::max(most, carried);
  }
  if (most <= 0) return Error{Errc::bad_input, "the cluster carries nothing of this model"};
  experiment.workload->rate = experiment.workload->load * most;
  experiment.workload->load = 0;
  return done();
}

Outcome<Result> run_once(const Experiment& experiment, const Contender& contender, const PluginMakers& makers,
                         std::uint64_t seed, bool keep_plots, bool keep_ended) {
  const auto source = source_for(experiment, seed);
  return run_with(experiment, contender, makers, *source, seed, keep_plots, keep_ended);
}

Outcome<Scored> score(const Experiment& experiment, const Contender& contender, const PluginMakers& makers,
                      const std::function<void()>& ran) {
  Scored scored;
  scored.contender = contender;
  std::vector<std::pair<std::string, std::vector<double>>> values;
  for (std::uint32_t i = 0; i < experiment.seeds; ++i) {
    BOOST_OUTCOME_TRY(Result result, run_once(experiment, contender, makers, experiment.first_seed + i, i == 0));
    const auto figures = figures_of(result);
    if (i == 0) {
      for (const auto& [name, value] : figures) values.emplace_back(name, std::vector<double>());
    }
    for (std::size_t f = 0; f < figures.size() && f < values.size(); ++f) values[f].second.push_back(figures[f].second);
    scored.p99s.push_back(result.latency.quantile(0.99));
    if (i == 0) scored.first = std::move(result);
    ran();
  }
  for (const auto& [name, its] : values) scored.figures.emplace_back(name, figure_of(its));
  if (experiment.saturation) {
    BOOST_OUTCOME_TRY(const double most, saturation_of(experiment, contender, makers));
    scored.figures.emplace_back("saturation_requests_per_s", Figure{most, most, most});
    ran();
  }
  return scored;
}

Outcome<std::vector<Scored>> compare(const Experiment& experiment, const std::vector<Contender>& contenders,
                                     const PluginMakers& makers, const Progress& progress) {
  std::vector<Scored> all;
  const std::size_t runs = contenders.size() * (experiment.seeds + (experiment.saturation ? 1U : 0U));
  std::size_t over = 0;
  progress(0, runs);
  for (const Contender& contender : contenders) {
    BOOST_OUTCOME_TRY(Scored scored, score(experiment, contender, makers, [&] { progress(++over, runs); }));
    all.push_back(std::move(scored));
  }
  return all;
}

}  // namespace gearbox::replay
