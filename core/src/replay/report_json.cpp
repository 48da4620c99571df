#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstdio>

#include "replay/report.hpp"

namespace gearbox::replay {

namespace json = boost::json;

namespace {

/// "12,031"
std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

json::object facts_of(const Scored& scored) {
  json::object facts;
  facts["name"] = scored.contender.name;
  facts["policy"] = scored.contender.policy;
  json::array gears;
  for (const std::uint8_t gear : scored.contender.gears) gears.push_back(gear);
  facts["gears"] = std::move(gears);
  json::object figures;
  for (const auto& [name, figure] : scored.figures)
    figures[name] = json::object{{"mean", figure.mean}, {"low", figure.low}, {"high", figure.high}};
  facts["figures"] = std::move(figures);
  json::array shifts;
  for (const ShiftDone& shift : scored.first.shifts) {
    shifts.push_back(json::object{{"at_s", in_seconds(shift.at)},
                                  {"group", scored.first.groups.at(shift.group)},
                                  {"from", shift.from},
                                  {"to", shift.to},
                                  {"rule", shift.rule},
                                  {"urgent", shift.urgent},
                                  {"pause_s", shift.pause_s},
                                  {"cost_request_s", shift.paused_requests_s}});
  }
  facts["shifts"] = std::move(shifts);
  json::object held;
  for (const auto& [rule, times] : scored.first.held_back) held[rule] = times;
  facts["held_back"] = std::move(held);
  facts["policy_fault"] = scored.first.policy_fault;
  facts["simulator_cpu_s"] = scored.first.host_s;
  facts["steps_per_s"] =
      scored.first.host_s > 0 ? static_cast<double>(scored.first.request_steps) / scored.first.host_s : 0.0;
  return facts;
}

}  // namespace

std::string headline_of(const Report& report) {
  const Experiment& experiment = report.experiment;
  std::string text;
  if (!report.contenders.empty()) {
    const Result& first = report.contenders.front().first;
    text += with_commas(first.arrived) + " requests in " +
            std::to_string(static_cast<std::uint64_t>(first.span_s / 60 + 0.5)) + " min of ";
  }
  text += experiment.trace ? experiment.trace->name : report.traffic;
  if (experiment.trace && experiment.copies > 1) text += ", " + std::to_string(experiment.copies) + " copies,";
  if (experiment.trace && experiment.speed != 1) {
    char times[32];
    std::snprintf(times, sizeof times, ", %g times faster,", experiment.speed);
    text += times;
  }
  text += " on " + experiment.cluster.name + " (" + std::to_string(experiment.cluster.nodes()) + " nodes, " +
          with_commas(experiment.cluster.cards()) + " cards)";
  for (const Model& model : experiment.models) text += ", " + model.name;
  text += ", balancer " + experiment.balancer + ", " + std::to_string(experiment.seeds) +
          (experiment.seeds == 1 ? " seed" : " seeds");
  return text;
}

std::string json_of(const Report& report) {
  json::object all;
  all["headline"] = headline_of(report);
  all["traffic"] = report.traffic;
  all["cluster"] = report.experiment.cluster.name;
  json::array models;
  for (const Model& model : report.experiment.models) models.push_back(json::value(model.name));
  all["models"] = std::move(models);
  all["balancer"] = report.experiment.balancer;
  all["seeds"] = report.experiment.seeds;
  all["first_seed"] = report.experiment.first_seed;
  if (report.experiment.workload) all["rate_per_s"] = report.experiment.workload->rate;
  all["slo"] = json::object{{"first_token_s", report.experiment.slo.first_token_s},
                            {"per_token_s", report.experiment.slo.per_token_s}};
  json::array contenders;
  for (const Scored& scored : report.contenders) contenders.push_back(facts_of(scored));
  all["contenders"] = std::move(contenders);
  if (report.bound) {
    all["clairvoyant"] = json::object{
        {"mean_s", report.bound->mean_s}, {"p99_s", report.bound->p99_s}, {"layouts", report.bound->layouts}};
  }
  return json::serialize(all);
}

}  // namespace gearbox::replay
