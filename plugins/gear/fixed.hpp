// fixed.hpp: one gear, whatever comes: a baseline, and how a person keeps a group in a gear.
#pragma once

#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

class Fixed final : public plugin::GearPolicy {
 public:
  /// `gear`: 1 to 6; 0: each group stays in the gear that it is in.
  explicit Fixed(std::uint8_t gear) : gear_(gear) {}
  Outcome<std::vector<plugin::Proposal>> propose(const plugin::ClusterView& cluster, Instant now) override;

 private:
  std::uint8_t gear_;
};

}  // namespace gearbox::gear
