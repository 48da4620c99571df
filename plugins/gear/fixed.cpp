#include "gear/fixed.hpp"

#include <string>

#include "gear/views.hpp"

namespace gearbox::gear {

Outcome<std::vector<plugin::Proposal>> Fixed::propose(const plugin::ClusterView& cluster, Instant) {
  std::vector<plugin::Proposal> proposals;
  if (gear_ == 0) return proposals;
  for (const plugin::GroupView& group : cluster.groups) {
    if (group.gear == gear_) continue;
    const plugin::GearView* wanted = gear_of(group, gear_);
    if (wanted == nullptr || !is_open(*wanted)) continue;
    plugin::Proposal proposal;
    proposal.group = group.id;
    proposal.gear = gear_;
    proposal.rule = "fixed";
    proposal.reason = "the policy is configured to gear " + std::to_string(gear_);
    proposals.push_back(std::move(proposal));
  }
  return proposals;
}

}  // namespace gearbox::gear
