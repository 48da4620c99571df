#include "scheduler/decision_book.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gear_facts/pages.hpp"

namespace gearbox::scheduler {

namespace json = boost::json;

namespace {

bool is_same(const Noted& one, const Noted& other) {
  const Decision& a = one.decision;
  const Decision& b = other.decision;
  return !a.shift && !b.shift && a.from == b.from && a.to == b.to && a.origin == b.origin && a.rule == b.rule &&
         a.governor == b.governor && a.dry_run == b.dry_run && a.urgent == b.urgent;
}

/// GROUP is the group of that name on whichever host it is; NODE/GROUP one of them.
bool is_called(const std::string& group, const std::string& asked) {
  return group == asked || (asked.find('/') == std::string::npos && group.ends_with("/" + asked));
}

/// A policy's arithmetic may overflow, and JSON has no such number: below zero is "not known".
double finite(double value) {
  return std::isfinite(value) ? value : -1;
}

json::object load_json(const plugin::LoadView& load) {
  return {{"requests_per_s", load.requests_per_s},
          {"prompt_tokens", load.prompt_tokens},
          {"output_tokens", load.output_tokens}};
}

}  // namespace

json::object inputs_of(const View& view, plugin::GroupId group, const gear_facts::Snapshot& snapshot) {
  const gear_facts::GroupFacts& facts = view.facts(group);
  const plugin::PoolView& pool = view.pool(group);
  return {{"observer", snapshot.observer},   {"sequence", snapshot.sequence},
          {"age_ms", facts.age_ms},          {"pool", json::string(pool.name.data(), pool.name.size())},
          {"waiting_at_node", pool.waiting}, {"fast", load_json(pool.fast)},
          {"slow", load_json(pool.slow)},    {"running", facts.running},
          {"waiting", facts.waiting},        {"cached_tokens", facts.cached_tokens},
          {"busy_mean", facts.busy_mean},    {"busy_peak", facts.busy_peak},
          {"burstiness", facts.burstiness},  {"memory_pressure", facts.memory_pressure},
          {"link_health", facts.link_health}};
}

json::object to_json(const Noted& noted) {
  const Decision& decision = noted.decision;
  json::array priced;
  for (const plugin::PricedGear& gear : decision.priced) {
    priced.push_back(json::object{
        {"gear", gear.gear}, {"latency_s", finite(gear.latency_s)}, {"capacity_per_s", finite(gear.capacity_per_s)}});
  }
  const std::string_view origin = name_of(decision.origin);
  return {{"key", std::to_string(noted.number)},
          {"group", noted.group},
          {"from", decision.from},
          {"to", decision.to},
          {"origin", json::string(origin.data(), origin.size())},
          {"shift", decision.shift},
          {"dry_run", decision.dry_run},
          {"urgent", decision.urgent},
          {"rule", decision.rule},
          {"reason", decision.reason},
          {"governor", decision.governor},
          {"why", decision.why},
          {"runner_up", decision.runner_up},
          {"priced", std::move(priced)},
          {"assessment", json::object{{"compute", finite(decision.assessment.compute)},
                                      {"memory", finite(decision.assessment.memory)},
                                      {"communication", finite(decision.assessment.communication)},
                                      {"rest", finite(decision.assessment.rest)},
                                      {"figures", decision.assessment.figures}}},
          {"term", noted.term},
          {"shift_number", noted.shift_number},
          {"first_unix_ms", noted.first_unix_ms},
          {"last_unix_ms", noted.last_unix_ms},
          {"times", noted.times},
          {"inputs", noted.inputs}};
}

void DecisionBook::add(Noted noted, std::int64_t unix_ms) {
  const auto last =
      std::find_if(book_.rbegin(), book_.rend(), [&](const Noted& other) { return other.group == noted.group; });
  if (last != book_.rend() && is_same(*last, noted)) {
    ++last->times;
    last->last_unix_ms = unix_ms;
    return;
  }
  noted.number = ++last_;
  noted.first_unix_ms = noted.last_unix_ms = unix_ms;
  book_.push_back(std::move(noted));
  if (book_.size() > kKept) book_.pop_front();
}

json::object DecisionBook::page(const std::string& group, const std::string& after) const {
  json::object answer;
  gear_facts::Page page;
  bool begun = after.empty();
  for (auto at = book_.rbegin(); at != book_.rend(); ++at) {
    if (!begun) {
      begun = std::to_string(at->number) == after;
      continue;
    }
    if (!group.empty() && !is_called(at->group, group)) continue;
    if (!page.add(to_json(*at))) break;
  }
  std::move(page).into(answer);
  return answer;
}

}  // namespace gearbox::scheduler
