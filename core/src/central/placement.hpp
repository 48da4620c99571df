// placement.hpp: which node does a task: those that can are found here, the balancer plugin picks one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "central/accounts.hpp"
#include "central/placement_book.hpp"
#include "central/registry.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/balancer.hpp"

namespace gearbox::central {

class Placement {
 public:
  /// `configured_tasks`: known even while no node has reported them. `started`, `settle`: how long after the start a
  /// missing node may simply not have reported yet.
  Placement(std::shared_ptr<plugin::Balancer> balancer, std::set<std::string> configured_tasks, Instant started,
            milliseconds settle);

  /// The next placement uses these.
  /// `chooser`: which build `balancer` is of; told to those who ask why.
  void use(std::shared_ptr<plugin::Balancer> balancer, explain::ChooserPtr chooser = nullptr) {
    balancer_ = std::move(balancer);
    chooser_ = std::move(chooser);
  }
  void know(std::set<std::string> configured_tasks) { configured_tasks_ = std::move(configured_tasks); }

  /// The node for one run of `task` by `user`. Counts the device against that node until its next report.
  /// Errors: bad_name; unknown_task (with the nearest name); not_allowed; no_node (which model has no ready worker,
  /// where); overloaded (the balancer's); plugin_fault. `note` is told what was seen and who chose. Nodes in `avoid`
  /// are taken only when no other can: the device does not reach them.
  Outcome<const NodeState*> place(Registry& registry, std::string_view task, const User& user, Instant now,
                                  PlacementNote& note, const std::vector<std::string>& avoid = {});

  /// The node for one run of a device's own steps: one on which each of `models` ("NAME", or "NAME@VERSION" with a
  /// version or a range) has a ready worker. Errors: as above; bad_input (no model is named, or a range is malformed);
  /// not_allowed (the account may not); not_found (no node has such a model, with the nearest name).
  Outcome<const NodeState*> place_steps(Registry& registry, const std::vector<std::string>& models, const User& user,
                                        Instant now, PlacementNote& note, const std::vector<std::string>& avoid = {});

  /// The node that holds requests of the device, which wants their answers: also one that is full, is being drained, or
  /// that only the device reaches. Errors: bad_name, not_allowed; no_node (it has not reported to this central).
  static Outcome<const NodeState*> holder(const Registry& registry, const wire::Locate& asked, const User& user);

  std::uint64_t balancer_faults() const { return faults_; }

 private:
  using Able = std::pair<const NodeState*, const wire::TaskReport*>;  // a node that knows the task, and how it does
  Outcome<const NodeState*> choose(Registry& registry, std::string_view task, const std::vector<Able>& knowing,
                                   const User& user, Instant now, PlacementNote& note,
                                   const std::vector<std::string>& avoid);
  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    const std::vector<plugin::CandidateView>& candidates, Instant now,
                                    PlacementNote& note);
  std::shared_ptr<plugin::Balancer> balancer_;
  explain::ChooserPtr chooser_;
  std::set<std::string> configured_tasks_;
  Instant started_;
  milliseconds settle_;
  std::uint64_t faults_ = 0;
};

/// May an account with these tasks use `task`?
bool may_use(const User& user, std::string_view task);

}  // namespace gearbox::central
