// cost_model.hpp: the recommended policy: price every gear at the load that is expected, take the assignment with the
// lowest latency, move little and for a reason.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

class Assignment;

struct CostModelLimits {
  double memory = 0.85;       // pressure above which only moves that lower it are looked at
  double least_gain = 0.1;    // share of the latency; what is less is within the error of the prices
  double large_gain = 0.25;   // from here on a shift is urgent
  double horizon_s = 60;      // over which a gain must pay for the shift's cost
  double expect = 0.8;        // share of the highest load of the last minutes that is expected again
  double remember_s = 3600;   // in which an overload fades to 37 % of what it was; 0: none is remembered
  double long_stay = 1.8;     // caches of those that run ÷ the mean request's; replay of the reference mix gave it
  std::uint32_t at_once = 2;  // groups of a pool in one proposal
};

class CostModel final : public plugin::GearPolicy {
 public:
  explicit CostModel(const CostModelLimits& limits) : limits_(limits) {}
  Outcome<std::vector<plugin::Proposal>> propose(const plugin::ClusterView& cluster, Instant now) override;

 private:
  /// A load that the gears of its moment did not keep up with.
  struct Overload {
    plugin::LoadView load;
    Instant at;
  };

  void of_pool(const plugin::PoolView& pool, std::vector<const plugin::GroupView*> groups, Instant now,
               std::vector<plugin::Proposal>& proposals);
  /// The assignment for the load that is expected, which it gives, too; for an overload that is remembered when that
  /// asks for more.
  Assignment assign(const plugin::PoolView& pool, const std::vector<const plugin::GroupView*>& groups, Instant now,
                    plugin::LoadView& load);
  void relieve(const plugin::PoolView& pool, const std::vector<const plugin::GroupView*>& groups,
               const Assignment* assignment, std::vector<plugin::Proposal>& proposals) const;
  /// A group that no request needs to go to, into the gear that answers soonest; nothing when that gains too little.
  std::optional<plugin::Proposal> for_spare(const Assignment& assignment, const plugin::GroupView& group,
                                            const plugin::LoadView& load, std::size_t groups) const;
  plugin::LoadView expected(const plugin::PoolView& pool) const;

  CostModelLimits limits_;
  std::map<std::string, Overload, std::less<>> overloads_;  // the last one of each pool
};

}  // namespace gearbox::gear
