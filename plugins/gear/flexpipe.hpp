// flexpipe.hpp: the simple published policy of three principles: memory is a hard limit, link health a soft one, queue
// length a hint. Kept as a baseline.
#pragma once

#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

struct FlexpipeLimits {
  double memory = 0.85;  // pressure above which a group goes down to `memory_gear`
  std::uint8_t memory_gear = 3;
  std::uint32_t queue = 50;  // waiting requests above which a group may go up
  double utilisation = 0.6;  // only below it
  double healthy = 0.8;      // and only with links better than that
  double unhealthy = 0.4;    // with links worse than that a group goes down
};

class Flexpipe final : public plugin::GearPolicy {
 public:
  explicit Flexpipe(const FlexpipeLimits& limits) : limits_(limits) {}
  Outcome<std::vector<plugin::Proposal>> propose(const plugin::ClusterView& cluster, Instant now) override;

 private:
  FlexpipeLimits limits_;
};

}  // namespace gearbox::gear
