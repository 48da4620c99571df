// site.hpp: a cluster as a policy sees it, for tests: one pool with a 7B model, groups of eight cards.
#pragma once

#include <deque>
#include <vector>

#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

class Site {
 public:
  explicit Site(double requests_per_s) {
    pool_.name = "all";
    pool_.model = {
        .layers = 32, .width = 4096, .heads = 32, .kv_heads = 32, .head_width = 128, .parameters = 6'740'000'000};
    load(requests_per_s);
  }
  void load(double requests_per_s) { pool_.fast = pool_.slow = {requests_per_s, 872, 218}; }

  plugin::GroupView& add(const char* card, std::uint8_t gear) {
    gears_.push_back({{1, {8, 1, 1, 1}, true, true},
                      {2, {4, 2, 1, 1}, true, true},
                      {3, {2, 4, 1, 1}, true, true},
                      {4, {1, 4, 2, 1}, true, true},
                      {5, {2, 1, 1, 4}, true, true},
                      {6, {1, 2, 2, 2}, true, true}});
    plugin::GroupView group;
    group.id = plugin::GroupId{static_cast<std::uint32_t>(10 * groups_.size())};
    group.node = static_cast<std::uint32_t>(groups_.size());
    group.card = *gears::card_named(card);
    group.gear = gear;
    group.since_shift = milliseconds{600'000};
    group.memory_pressure = 0.5;
    group.busy_mean = 0.5;
    group.activity = 0.3;
    group.pause_s = 0.05;
    groups_.push_back(group);
    return groups_.back();
  }
  std::vector<plugin::GearView>& gears(std::size_t group) { return gears_[group]; }
  plugin::PoolView& pool() { return pool_; }
  plugin::GroupView& group(std::size_t index) { return groups_[index]; }
  Instant now{};

  std::vector<plugin::Proposal> ask(plugin::GearPolicy& policy) {
    view_.assign(groups_.begin(), groups_.end());
    for (std::size_t i = 0; i < view_.size(); ++i) view_[i].gears = gears_[i];
    auto proposed = policy.propose({std::span(&pool_, 1), view_}, now);
    return proposed ? std::move(proposed).value() : std::vector<plugin::Proposal>();
  }
  /// Asks and follows until nothing is proposed; the number of shifts, or -1 when there is no end.
  int settle(plugin::GearPolicy& policy) {
    int shifts = 0;
    for (int round = 0; round < 100; ++round) {
      const auto proposals = ask(policy);
      if (proposals.empty()) return shifts;
      for (const plugin::Proposal& proposal : proposals) {
        groups_[static_cast<std::uint32_t>(proposal.group) / 10].gear = proposal.gear;
        ++shifts;
      }
    }
    return -1;
  }

 private:
  plugin::PoolView pool_;
  std::deque<std::vector<plugin::GearView>> gears_;  // the views point into it
  std::deque<plugin::GroupView> groups_;
  std::vector<plugin::GroupView> view_;
};

}  // namespace gearbox::gear
