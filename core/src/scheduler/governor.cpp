#include "scheduler/governor.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "scheduler/assessment.hpp"

namespace gearbox::scheduler {

namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

double seconds_of(milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

bool is_within(const config::Hours& hours, std::uint16_t minute) {
  if (hours.from == hours.until) return true;
  if (hours.from < hours.until) return minute >= hours.from && minute < hours.until;
  return minute >= hours.from || minute < hours.until;
}

struct Objection {
  const char* rule;
  std::string why;
};

struct Case {
  const plugin::GroupView& group;
  const GroupRecord& record;
  const plugin::GearView& gear;
  const Wish& wish;
};

using Answer = std::optional<Objection>;

Answer memory(const Case& at) {
  if (at.gear.fits) return {};
  return Objection{"memory", "its weights, cache and buffers do not fit beside what is there"};
}

Answer allowed(const Case& at) {
  if (at.gear.allowed) return {};
  return Objection{"allowed", text("gear %d is not allowed for this group (trust of its node: %.2f)", at.gear.number,
                                   at.group.trust)};
}

Answer person(const Case& at) {
  if (!at.record.held || at.wish.origin == Origin::person) return {};
  return Objection{"held", "a person keeps it in its gear"};
}

Answer busy(const Case& at) {
  if (!at.record.shifting) return {};
  return Objection{"shifting", "it is shifting already"};
}

Answer in_hours(const Case& at, const Rules& rules, std::uint16_t minute) {
  if (rules.hours.empty() || at.wish.origin == Origin::person) return {};
  if (std::any_of(rules.hours.begin(), rules.hours.end(),
                  [&](const config::Hours& hours) { return is_within(hours, minute); }))
    return {};
  return Objection{"hours", text("it is %02d:%02d, and shifts are for other hours", minute / 60, minute % 60)};
}

Answer dwell(const Case& at, const Rules& rules) {
  if (at.record.came_from == 0 || at.wish.origin == Origin::person) return {};
  const milliseconds least = at.wish.proposal.urgent ? rules.urgent_dwell : rules.dwell;
  if (at.group.since_shift >= least) return {};
  return Objection{"dwell",
                   text("%.0f s since its last shift, %.0f s %sare the least", seconds_of(at.group.since_shift),
                        seconds_of(least), at.wish.proposal.urgent ? "for an urgent one " : "")};
}

/// Global over local: what the whole cluster needed is not undone by one node's wish before the full dwell.
Answer global(const Case& at, const Rules& rules) {
  if (at.wish.origin != Origin::node || at.record.last_origin == Origin::node || at.record.came_from == 0) return {};
  if (at.group.since_shift >= rules.dwell) return {};
  return Objection{"global",
                   text("its node wishes it, and the %s shifted it %.0f s ago",
                        std::string(name_of(at.record.last_origin)).c_str(), seconds_of(at.group.since_shift))};
}

Answer cooldown(const Case& at, const Rules& rules) {
  if (at.record.came_from != at.gear.number || at.wish.origin == Origin::person) return {};
  if (at.group.since_shift >= rules.reverse_cooldown) return {};
  return Objection{"reverse_cooldown",
                   text("it left gear %d %.0f s ago, and goes back after %.0f s at the earliest", at.gear.number,
                        seconds_of(at.group.since_shift), seconds_of(rules.reverse_cooldown))};
}

Answer gain(const Case& at, const Rules& rules) {
  const plugin::Proposal& proposal = at.wish.proposal;
  if (at.wish.origin == Origin::person) return {};
  if (proposal.gain >= 0 && proposal.gain < rules.least_gain)
    return Objection{"gain",
                     text("it gains %.1f %%, %.1f %% are the least", 100 * proposal.gain, 100 * rules.least_gain)};
  if (proposal.gain_requests_s >= 0 && proposal.gain_requests_s <= proposal.cost_requests_s) {
    return Objection{"cost", text("it gains %.3g request-seconds and costs %.3g", proposal.gain_requests_s,
                                  proposal.cost_requests_s)};
  }
  return {};
}

Answer budget(const Case& at, const Rules& rules) {
  if (at.record.shifts_of_hour < rules.per_hour || at.wish.origin == Origin::person) return {};
  return Objection{"budget",
                   text("%u shifts within an hour, %u are the most", at.record.shifts_of_hour, rules.per_hour)};
}

/// Memory first, then what is urgent, then the largest gain.
bool goes_before(const Wish& one, const Wish& other) {
  if (one.origin != other.origin) return one.origin > other.origin;
  const bool memory = one.proposal.rule == "memory";
  if (memory != (other.proposal.rule == "memory")) return memory;
  if (one.proposal.urgent != other.proposal.urgent) return one.proposal.urgent;
  return one.proposal.gain > other.proposal.gain;
}

Decision decision_of(const plugin::GroupView& group, Wish wish) {
  Decision decision;
  decision.group = group.id;
  decision.from = group.gear;
  decision.to = wish.proposal.gear;
  decision.origin = wish.origin;
  decision.urgent = wish.proposal.urgent;
  decision.rule = std::move(wish.proposal.rule);
  decision.reason = std::move(wish.proposal.reason);
  decision.runner_up = wish.proposal.runner_up;
  decision.priced = std::move(wish.proposal.priced);
  return decision;
}

}  // namespace

Rules rules_of(const config::GearsConfig& gears) {
  Rules rules;
  rules.dwell = gears.dwell;
  rules.urgent_dwell = gears.urgent_dwell;
  rules.reverse_cooldown = gears.reverse_cooldown;
  rules.least_gain = gears.least_gain;
  rules.at_once = gears.at_once;
  rules.per_hour = gears.per_hour;
  rules.dry_run = gears.dry_run;
  for (const std::string& text : gears.hours) {
    if (const auto hours = config::read_hours(text)) rules.hours.push_back(*hours);
  }
  return rules;
}

std::vector<Decision> judge(const plugin::ClusterView& cluster, std::span<const GroupRecord> records,
                            std::vector<Wish> wishes, const Rules& rules, std::uint16_t minute) {
  std::vector<Decision> decisions;
  std::map<plugin::PoolId, std::uint32_t> shifting;
  for (std::size_t i = 0; i < cluster.groups.size() && i < records.size(); ++i)
    shifting[cluster.groups[i].pool] += records[i].shifting ? 1 : 0;
  std::vector<bool> judged(cluster.groups.size(), false);
  std::stable_sort(wishes.begin(), wishes.end(), goes_before);
  for (Wish& wish : wishes) {
    const auto group = std::lower_bound(cluster.groups.begin(), cluster.groups.end(), wish.proposal.group,
                                        [](const plugin::GroupView& view, plugin::GroupId id) { return view.id < id; });
    if (group == cluster.groups.end() || group->id != wish.proposal.group) continue;  // gone since it was wished
    const auto index = static_cast<std::size_t>(group - cluster.groups.begin());
    if (index >= records.size() || judged[index] || wish.proposal.gear == group->gear) continue;
    const auto gear = std::find_if(group->gears.begin(), group->gears.end(),
                                   [&](const plugin::GearView& view) { return view.number == wish.proposal.gear; });
    if (gear == group->gears.end()) continue;
    judged[index] = true;
    const Case at{*group, records[index], *gear, wish};
    Answer objection = memory(at);
    const auto ask = [&](Answer answer) {
      if (!objection) objection = std::move(answer);
    };
    ask(allowed(at));
    ask(busy(at));
    ask(person(at));
    ask(in_hours(at, rules, minute));
    ask(global(at, rules));
    ask(dwell(at, rules));
    ask(cooldown(at, rules));
    ask(gain(at, rules));
    ask(budget(at, rules));
    std::uint32_t& others = shifting[group->pool];
    if (!objection && others >= rules.at_once && wish.origin != Origin::person) {
      objection = Objection{"at_once", text("%u groups of its pool are shifting", others)};
    }
    Decision decision = decision_of(*group, std::move(wish));
    decision.governor = objection ? objection->rule : "pass";
    decision.why = objection ? std::move(objection->why) : std::string();
    decision.shift = !objection && !rules.dry_run;
    decision.dry_run = !objection && rules.dry_run;
    if (!objection) ++others;
    decision.assessment = assess(*group, cluster.pools);
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::node:
      return "node";
    case Origin::scheduler:
      return "scheduler";
    case Origin::person:
      return "person";
  }
  return "unknown";
}

}  // namespace gearbox::scheduler
