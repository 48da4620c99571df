// cluster.hpp: the hardware of a run, as its TOML file tells it (docs/replay.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/gears/layout.hpp"
#include "replay/event_queue.hpp"

namespace gearbox::replay {

/// Equal nodes.
struct NodeSet {
  std::string name;  // nodes are called NAME-0, NAME-1 ...
  std::uint32_t count = 1;
  std::string card_name;
  gears::Card card;
  std::uint32_t cards = 1;   // of each node
  std::uint32_t groups = 1;  // of each node: its cards are split evenly among them
  std::uint8_t gear = 1;     // at the beginning
  double full_speed = 0;     // so many replicas of a group run at full speed, more share it evenly; 0: any number
};

struct Happening {
  enum class Kind : std::uint8_t { fail, slow_link };
  Kind kind = Kind::fail;
  Nanos from = 0, until = kNever;
  std::uint32_t node = 0;  // index among all nodes
  double slowdown = 1;     // of links: how many times slower
};

/// Groups that serve one model for the same tenants.
struct PoolSpec {
  std::string name;
  std::string model;                    // empty: the run's first
  std::vector<std::string> nodes;       // names of node sets; empty: all that no other pool names
  std::vector<std::string> tenants;     // empty: all that no other pool of the model names
  std::vector<std::uint32_t> gears;     // allowed ones; empty: all
  std::uint64_t most_input_tokens = 0;  // only requests up to that; 0: all
  bool borrow = true;                   // idle groups of the model's other pools serve this one's requests too
};

struct ShiftCost {
  enum class How : std::uint8_t { in_flight, drain, recompute };
  How how = How::in_flight;
  double rehearse_s = 1.0;  // from the decision to the pause; serving goes on
  double pause_s = 0.3;     // without what moving the caches takes
};

struct Cluster {
  std::string name;
  std::vector<NodeSet> sets;
  std::vector<Happening> happenings;
  std::vector<PoolSpec> pools;
  ShiftCost shift;
  double broker_s = 0;    // a decoder's request is on its way to the group and back, before anything computes
  double token_s = 0;     // what handing one token on adds to the step that it comes from
  double position_s = 0;  // of each cached position that a step looks at, beside the price model's, on one card
  double mixed_s = 0;     // of a step that takes prompts in beside sequences that decode, for each card of a replica
  bool pads = false;      // a step looks at as many positions of each sequence as the longest one has
  double restart_s = 30;  // of a node that failed, until it serves again
  double memory_share = 0.92;   // of a card's memory that may be used
  bool tells_activity = false;  // do observers see the arithmetic units' activity, or only the busy share?

  std::uint32_t nodes() const;
  std::uint32_t cards() const;
};

inline constexpr std::uint32_t kMostNodes = 4096;
inline constexpr std::uint32_t kMostCardsOfNode = 64;

/// Errors: bad_config, one line for each fault.
Outcome<Cluster> read_cluster(const std::filesystem::path& file);
/// The same from text; `shown` is its name in faults.
Outcome<Cluster> parse_cluster(std::string text, const std::string& shown);

}  // namespace gearbox::replay
