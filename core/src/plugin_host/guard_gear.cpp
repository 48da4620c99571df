// A gear policy's proposals, checked against the view that they were made from.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "plugin_host/guarded_call.hpp"
#include "plugin_host/guards.hpp"

namespace gearbox::plugin_host {

namespace {

constexpr std::size_t kMaxRule = 32;
constexpr std::size_t kMaxReason = 512;

/// What is wrong with `proposal`, or nothing.
std::string fault_of(const plugin::Proposal& proposal, const plugin::ClusterView& cluster) {
  const auto group = std::lower_bound(cluster.groups.begin(), cluster.groups.end(), proposal.group,
                                      [](const plugin::GroupView& view, plugin::GroupId id) { return view.id < id; });
  const std::string who = "group " + std::to_string(static_cast<std::uint32_t>(proposal.group));
  if (group == cluster.groups.end() || group->id != proposal.group)
    return "proposed a shift of " + who + ", which is not there";
  const auto has = [&](std::uint8_t gear) {
    return std::any_of(group->gears.begin(), group->gears.end(),
                       [&](const plugin::GearView& view) { return view.number == gear; });
  };
  if (!has(proposal.gear))
    return "proposed gear " + std::to_string(proposal.gear) + " for " + who + ", which has no such gear";
  if (proposal.runner_up != 0 && !has(proposal.runner_up)) return "named a runner-up that " + who + " does not have";
  if (proposal.rule.empty()) return "named no rule";
  if (!std::isfinite(proposal.gain) || !std::isfinite(proposal.gain_requests_s) ||
      !std::isfinite(proposal.cost_requests_s) || proposal.cost_requests_s < 0)
    return "gave a gain or a cost that is no number";
  if (proposal.priced.size() > group->gears.size()) return "priced more gears than " + who + " has";
  return {};
}

class GuardedGearPolicy final : public plugin::GearPolicy {
 public:
  GuardedGearPolicy(std::shared_ptr<Library> library, std::unique_ptr<plugin::GearPolicy> inner)
      : held_(std::move(library), std::move(inner)) {}

  Outcome<std::vector<plugin::Proposal>> propose(const plugin::ClusterView& cluster, Instant now) override {
    Call call(*held_.library, "propose");
    auto proposed = without_throw(call, Errc::plugin_fault, [&] { return held_.object->propose(cluster, now); });
    call.ended(held_.budget());
    if (!proposed) return call.fault(Errc::plugin_fault, "failed: " + escaped(proposed.error().detail, 128));
    std::set<plugin::GroupId> seen;
    for (plugin::Proposal& proposal : proposed.value()) {
      std::string fault = fault_of(proposal, cluster);
      if (fault.empty() && !seen.insert(proposal.group).second) fault = "proposed two gears for one group";
      if (!fault.empty()) return call.fault(Errc::plugin_fault, fault);
      proposal.rule = escaped(proposal.rule, kMaxRule);
      proposal.reason = escaped(proposal.reason, kMaxReason);
    }
    return proposed;
  }

 private:
  Held<plugin::GearPolicy> held_;
};

}  // namespace

std::shared_ptr<plugin::GearPolicy> guarded(std::shared_ptr<Library> library,
                                            std::unique_ptr<plugin::GearPolicy> inner) {
  return std::make_shared<GuardedGearPolicy>(std::move(library), std::move(inner));
}

}  // namespace gearbox::plugin_host
