// gear.hpp: a GearPolicy proposes which groups of cards should change their parallel layout.
//
// It only proposes: what may happen, and when, is the governor's (dwell and cooldown times, allowed gears, trust,
// memory, budget, hours), the same for all policies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/gears/layout.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kGearApi = 1;  // raise on any change to this file

enum class GroupId : std::uint32_t {};
enum class PoolId : std::uint32_t {};

/// A gear as it would be on one group. 1 data parallel, 2 tensor ×2, 3 tensor ×4, 4 sequence, 5 pipeline, 6 hybrid.
struct GearView {
  std::uint8_t number = 0;
  gears::Layout layout;
  bool allowed = false;  // by the configuration and by the trust that the group's node has
  /// Weights, cache in use and buffers beside the old ones, in the largest free block of the fullest card, with the
  /// governor's margin. A gear that does not fit is never shifted to.
  bool fits = false;
};

/// Requests of one kind over some time.
struct LoadView {
  double requests_per_s = 0;
  double prompt_tokens = 0;  // mean
  double output_tokens = 0;  // mean
};

/// Groups that serve one model for the same tenants or class of requests.
struct PoolView {
  PoolId id{};
  std::string_view name;
  gears::ModelShape model;
  LoadView fast, slow;               // means over about 8 s and 40 s
  std::span<const LoadView> recent;  // of the last minutes, 20 s each, oldest first
  std::uint32_t waiting = 0;         // requests that no group has taken yet
  milliseconds oldest_wait{};
};

/// One group of cards on one node. A figure that nobody has is below zero.
struct GroupView {
  GroupId id{};
  PoolId pool{};
  std::uint32_t node = 0;  // equal for groups of one node
  gears::Card card;
  std::uint8_t gear = 0;            // that it is in
  std::span<const GearView> gears;  // all that it could be in, its own with them; sorted by number
  milliseconds since_shift{};       // its last one
  double busy_mean = -1;            // share of the time in which its cards do anything: near 1 whenever work waits
  double busy_peak = -1;            // of single samples
  double burstiness = -1;           // standard deviation of the samples ÷ their mean
  double activity = -1;             // share of the cards' arithmetic units at work
  double memory_pressure = -1;      // used ÷ usable, of the fullest card
  double link_health = 1;           // 0 dead, 1 as told by the card's figures
  double link_slowdown = 1;         // times
  double trust = 1;                 // of its node, 0 to 1
  std::uint32_t waiting = 0;        // at this group
  std::uint32_t running = 0;
  std::uint64_t cached_tokens = 0;  // that a shift would have to keep
  double first_token_s = -1;        // median
  double per_token_s = -1;          // median
  double pause_s = 0;               // what a shift of this group is expected to stop it for
};

/// Everything is valid during the call. Groups and pools are sorted by id; a PoolId is the index of its pool.
struct ClusterView {
  std::span<const PoolView> pools;
  std::span<const GroupView> groups;
};

/// One gear's figures, for people and for the governor.
struct PricedGear {
  std::uint8_t gear = 0;
  double latency_s = 0;       // mean of a request; below zero: it does not keep up
  double capacity_per_s = 0;  // requests
};

struct Proposal {
  GroupId group{};
  std::uint8_t gear = 0;        // to be in
  std::string rule;             // that fired, as a short fixed name: "price", "memory", "queue" ...
  std::string reason;           // one sentence with the figures
  double gain = -1;             // predicted share of latency saved, 0 to 1; below zero: the policy predicts none
  double gain_requests_s = -1;  // request-seconds saved within the governor's horizon; below zero: not predicted
  double cost_requests_s = 0;   // request-seconds that the shift itself costs
  bool urgent = false;          // memory, overload, or a large gain; `reason` says which
  std::uint8_t runner_up = 0;   // 0: none
  std::vector<PricedGear> priced;
};

/// Threads: one instance, called on one strand only; must not block. May keep state; a swap loses it.
class GearPolicy {
 public:
  virtual ~GearPolicy() = default;
  /// At most one proposal for a group; a group without one stays as it is. `now` is the caller's monotonic clock: the
  /// same plugin runs in replay. Errors: any; nothing is shifted then, and it counts as a fault of the plugin.
  virtual Outcome<std::vector<Proposal>> propose(const ClusterView& cluster, Instant now) = 0;
};

template <>
struct KindTraits<Kind::gear> {
  using Class = GearPolicy;
  static constexpr std::uint32_t kApi = kGearApi;
};

}  // namespace gearbox::plugin
