// site.hpp: the groups of a run and how requests get to them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "replay/group.hpp"
#include "replay/simulator.hpp"

namespace gearbox::replay {

/// Groups that serve one model, and what a balancer sees of them.
struct Pool {
  std::string name;
  const Model* model = nullptr;
  std::uint16_t model_index = 0;
  const PoolSpec* spec = nullptr;  // null: the model's only pool, of all nodes
  std::vector<std::uint32_t> groups;
  std::vector<plugin::CandidateView> candidates;  // one for each of `groups`
  double least_capacity = 0;                      // of any group's replica: smaller requests fit everywhere
  std::vector<RequestIndex> waiting;              // nobody could take them
};

class Site {
 public:
  explicit Site(const Scenario& scenario) : scenario_(scenario) {}

  /// Errors: bad_input.
  Outcome<void> build();

  enum class Routed : std::uint8_t { placed, waits, refused };
  Routed route(RequestIndex index, Nanos now);
  /// Those that nobody could take are tried again.
  void route_waiting(Nanos now, std::vector<RequestIndex>& refused);

  /// What the balancer sees of the group has changed.
  void refresh(std::uint32_t group);
  /// Its gear has changed as well.
  void refresh_capacity(std::uint32_t group);
  /// Step times of the last 10 s, as nodes tell them once a second.
  void refresh_step_times(Nanos now);

  std::vector<Group>& groups() { return groups_; }
  Group& group(std::uint32_t index) { return groups_[index]; }
  std::vector<Pool>& pools() { return pools_; }
  Requests& requests() { return requests_; }
  EventQueue& events() { return events_; }
  const std::vector<std::string>& node_names() const { return node_names_; }

 private:
  Outcome<void> build_pools();
  std::uint32_t pool_of(const Arrival& arrival) const;
  const std::vector<plugin::CandidateView>& candidates_for(const Pool& pool, const Arrival& arrival);

  const Scenario& scenario_;
  std::vector<std::string> node_names_;
  std::vector<Group> groups_;
  std::vector<Pool> pools_;
  std::vector<std::uint32_t> place_in_pool_;  // by group
  std::vector<plugin::CandidateView> few_;    // of one call
  std::vector<std::vector<std::uint32_t>> pools_by_model_;
  Requests requests_;
  EventQueue events_;
};

}  // namespace gearbox::replay
