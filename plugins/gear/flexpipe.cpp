#include "gear/flexpipe.hpp"

#include <cstdio>
#include <string>

#include "gear/views.hpp"

namespace gearbox::gear {

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// Arithmetic units at work where a card tells; else the busy share, which is near 1 whenever work waits.
double utilisation_of(const plugin::GroupView& group) {
  return group.activity >= 0 ? group.activity : group.busy_mean;
}

plugin::Proposal proposal(const plugin::GroupView& group, const plugin::GearView& to, const char* rule,
                          std::string reason) {
  plugin::Proposal made;
  made.group = group.id;
  made.gear = to.number;
  made.rule = rule;
  made.reason = std::move(reason);
  return made;
}

}  // namespace

Outcome<std::vector<plugin::Proposal>> Flexpipe::propose(const plugin::ClusterView& cluster, Instant) {
  std::vector<plugin::Proposal> proposals;
  for (const plugin::GroupView& group : cluster.groups) {
    if (group.memory_pressure > limits_.memory) {
      // Hard: while memory is short nothing else is looked at. The highest open gear that is low enough.
      const plugin::GearView* lower = nullptr;
      for (const plugin::GearView& gear : group.gears) {
        if (is_open(gear) && gear.number <= limits_.memory_gear) lower = &gear;
      }
      if (group.gear > limits_.memory_gear && lower != nullptr) {
        proposals.push_back(proposal(group, *lower, "memory",
                                     "memory pressure " + number(group.memory_pressure) + " is above " +
                                         number(limits_.memory) + ": at most gear " +
                                         std::to_string(limits_.memory_gear)));
        proposals.back().urgent = true;
      }
      continue;
    }
    if (group.link_health < limits_.unhealthy) {
      if (const plugin::GearView* lower = next_open(group, false); lower != nullptr) {
        proposals.push_back(proposal(
            group, *lower, "link",
            "link health " + number(group.link_health) + " is below " + number(limits_.unhealthy) + ": one down"));
      }
      continue;
    }
    const double utilisation = utilisation_of(group);
    if (group.waiting > limits_.queue && utilisation >= 0 && utilisation < limits_.utilisation &&
        group.link_health > limits_.healthy) {
      if (const plugin::GearView* higher = next_open(group, true); higher != nullptr) {
        proposals.push_back(proposal(group, *higher, "queue",
                                     std::to_string(group.waiting) + " requests wait, utilisation " +
                                         number(utilisation) + " is below " + number(limits_.utilisation) +
                                         " and link health " + number(group.link_health) + ": one up"));
      }
    }
  }
  return proposals;
}

}  // namespace gearbox::gear
