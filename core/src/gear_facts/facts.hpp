// facts.hpp: what observer, executor and scheduler tell each other, as JSON on their control sockets.
//
// Who reads takes nothing for granted: a member of another type or out of its range is an error of the whole message,
// one that is missing keeps its default, one that is unknown is skipped: so versions can differ by one.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/gears/layout.hpp"
#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear_facts {

/// One process of a group. A figure that nobody has is below zero.
struct RankFacts {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t used_units = 0, units = 0;  // of its cache
  double busy = -1;                         // share of one processor since the sample before
  std::int64_t memory_bytes = -1;           // resident
};

/// A group as the observer saw it last.
struct GroupFacts {
  std::string name;
  std::string model;        // that it serves; where the engine does not tell: the name up to its last '-' or '.'
  std::string pool;         // that its worker's configuration names; empty: none
  bool stale = false;       // its engine did not answer in time: nothing may be decided on these figures
  std::string problem;      // why
  std::int64_t age_ms = 0;  // of the figures
  std::string phase;        // the engine's word: "running", "building" ...
  std::string shift;        // state of the shift that goes on; empty: none
  std::uint8_t gear = 0;    // 0: a plan that is none of the six
  std::string plan;         // in words
  std::string collective;   // what joins its ranks
  std::uint64_t epoch = 0, term = 0;
  std::uint32_t ranks = 0;
  std::vector<RankFacts> processes;
  std::uint32_t running = 0, waiting = 0;
  std::uint64_t tokens = 0, steps = 0, evicted = 0, shifts = 0;
  std::uint64_t cached_tokens = 0;  // positions, where the shape is known; else units of the cache
  std::uint32_t samples = 0;        // behind the next three
  double busy_mean = -1, busy_peak = -1, burstiness = -1;
  double memory_pressure = -1;     // cache in use of the fullest rank
  std::int64_t memory_bytes = -1;  // resident, of all ranks together
  gears::ModelShape shape;         // layers = 0: not told
  bool has_load = false;
  plugin::LoadView fast, slow;
  std::vector<plugin::LoadView> recent;  // 20 s each, oldest first
  std::int64_t oldest_wait_ms = -1;
  double first_token_ms = -1, per_token_ms = -1;
  double link_health = 1, link_slowdown = 1;
};

/// What waits at the node for a model's groups.
struct ModelQueue {
  std::string model;
  std::uint32_t queued = 0, running = 0;
};

struct GpuFacts {
  std::uint32_t index = 0;
  double busy = -1;  // share
  std::uint64_t memory_used_bytes = 0, memory_total_bytes = 0;
};

/// Share of its usual bandwidth from which on a link is as good as ever: what else goes over it takes its part.
inline constexpr double kGoodLink = 0.5;

/// The link to another host's observer, as it was probed last.
struct LinkFacts {
  std::string peer;     // "HOST:PORT"
  bool failed = false;  // it did not answer
  std::int64_t latency_us = 0;
  double bytes_per_s = 0, usual_bytes_per_s = 0;  // 0: not measured yet
  std::int64_t age_ms = 0;                        // of the last probe
  std::int64_t bandwidth_age_ms = -1;             // below zero: not measured yet
};

/// One round of the observer.
struct Snapshot {
  std::uint64_t sequence = 0;  // rises by one with each round of one observer
  std::string observer;        // which one: another after a restart
  std::int64_t age_ms = 0;
  bool node_answers = false;
  std::vector<ModelQueue> queues;
  std::vector<GpuFacts> gpus;
  bool link_probed = false;  // no other host, no link to look at
  bool link_failed = false;
  double link_share = 1;           // bandwidth ÷ usual
  std::uint64_t link_samples = 0;  // rises with each probe that says something new
  std::vector<LinkFacts> links;    // by peer
  std::vector<GroupFacts> groups;  // by name
};

/// What the executor knows of a group: it lives with the group, so that a new leader knows it.
struct GroupRecord {
  std::string name;
  std::uint8_t came_from = 0;        // gear before the last shift; 0: none is known
  std::string origin;                // of the last shift: "scheduler", "person", "node"
  std::int64_t since_shift_ms = -1;  // below zero: never shifted
  std::uint32_t shifts_of_hour = 0;
  bool shifting = false;
  bool held = false;                  // a person keeps it in its gear
  std::vector<std::int64_t> allowed;  // by a person; empty: all
  double pause_ms = -1;               // of its last shift
};

struct ShiftOrder {
  std::string group;
  std::uint8_t gear = 0;
  std::uint64_t term = 0;
  std::string origin;    // "scheduler", "person", "node"
  std::string decision;  // why, one line; kept with the shift
};

boost::json::object to_json(const GroupFacts& group);
boost::json::object to_json(const GroupRecord& record);
boost::json::object to_json(const ShiftOrder& order);
/// Without its groups: they come in pages.
boost::json::object head_of(const Snapshot& snapshot);

/// Errors: bad_frame.
Outcome<GroupFacts> read_group(const boost::json::object& object);
Outcome<GroupRecord> read_record(const boost::json::object& object);
Outcome<ShiftOrder> read_order(const boost::json::object& object);
Outcome<Snapshot> read_head(const boost::json::object& object);

}  // namespace gearbox::gear_facts
