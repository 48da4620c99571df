// governor.hpp: what may be shifted, whatever the policy wishes.
//
// Few rules, in this order: memory, allowed gears (the configuration's, and those that trust leaves), hours, dwell,
// reverse cooldown, gain over cost, budget, and how many at once. The first one that objects is the one that is told. A
// pure function of its arguments: the same governor runs in replay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/hours.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/gear.hpp"
#include "scheduler/decision.hpp"

namespace gearbox::scheduler {

struct Rules {
  milliseconds dwell{90'000};
  milliseconds urgent_dwell{15'000};
  milliseconds reverse_cooldown{30'000};  // before the gear that a group came from, also when it is urgent
  double least_gain = 0.04;               // share of the latency, where the policy predicts it
  std::uint32_t at_once = 2;              // groups of one pool that shift at the same time
  std::uint32_t per_hour = 20;            // shifts of one group
  std::vector<config::Hours> hours;       // none: always
  bool dry_run = false;                   // decide and tell, but shift nothing
};

Rules rules_of(const config::GearsConfig& gears);

/// What is known of a group beside its figures. It lives with the group, so a new leader knows it.
struct GroupRecord {
  plugin::GroupId group{};
  std::uint8_t came_from = 0;  // gear before the last shift; 0: never shifted
  Origin last_origin = Origin::scheduler;
  std::uint32_t shifts_of_hour = 0;
  bool shifting = false;  // rehearses or commits just now
  bool held = false;      // a person keeps it in its gear
};

struct Wish {
  plugin::Proposal proposal;
  Origin origin = Origin::scheduler;
};

/// `records`: one for each group of `cluster`, in the same order. `minute`: of the day, local time; only the hours look
/// at it. A group has one decision at most: of several wishes the one with the highest origin is judged.
std::vector<Decision> judge(const plugin::ClusterView& cluster, std::span<const GroupRecord> records,
                            std::vector<Wish> wishes, const Rules& rules, std::uint16_t minute);

}  // namespace gearbox::scheduler
