#include "scheduler/round.hpp"

#include <utility>

namespace gearbox::scheduler {

Outcome<std::vector<Decision>> decide(const View& view, plugin::GearPolicy& policy, const Rules& rules,
                                      std::uint16_t minute, Instant now) {
  const plugin::ClusterView cluster = view.cluster();
  if (cluster.groups.empty()) return std::vector<Decision>();
  BOOST_OUTCOME_TRY(std::vector<plugin::Proposal> proposals, policy.propose(cluster, now));
  std::vector<Wish> wishes;
  wishes.reserve(proposals.size());
  for (plugin::Proposal& proposal : proposals) wishes.push_back({std::move(proposal), Origin::scheduler});
  return judge(cluster, view.records(), std::move(wishes), rules, minute);
}

}  // namespace gearbox::scheduler
