// view.hpp: from what observer and executor say to what a policy and the governor look at.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "gear_facts/facts.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/gear.hpp"
#include "scheduler/governor.hpp"

namespace gearbox::scheduler {

/// Gears of which a group's engine said that they do not fit: they are asked again after a while, or when the group has
/// changed its plan.
class Misfits {
 public:
  void add(const std::string& group, std::uint8_t gear, std::uint64_t epoch, Instant now);
  bool holds(const std::string& group, std::uint8_t gear, std::uint64_t epoch, Instant now) const;
  void forget_old(Instant now);

 private:
  struct Said {
    std::uint64_t epoch = 0;
    Instant at;
  };
  std::map<std::pair<std::string, std::uint8_t>, Said> said_;
};

/// A group keeps its number for as long as this scheduler lives: policies may keep state by it.
class GroupNumbers {
 public:
  plugin::GroupId of(const std::string& name);

 private:
  std::map<std::string, plugin::GroupId> numbers_;
};

/// One host of the view. One that is away is none of them.
struct HostInputs {
  const gear_facts::Snapshot* snapshot = nullptr;
  const std::vector<gear_facts::GroupRecord>* records = nullptr;
  double trust = 1;
  bool distrusted = false;
  milliseconds lag{0};  // from the snapshot's time to the records', at most
  std::string name{};   // of its node, by which its groups are called NODE/GROUP; empty: they are called by their names
};

struct ViewInputs {
  std::vector<HostInputs> hosts;
  const config::GearsConfig* gears = nullptr;
  const Misfits* misfits = nullptr;
};

/// Holds everything that its cluster() points into. Not to be moved while somebody has that.
class View {
 public:
  View(const ViewInputs& inputs, GroupNumbers& numbers, Instant now);
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  plugin::ClusterView cluster() const { return {pools_, groups_}; }
  const std::vector<GroupRecord>& records() const { return records_; }
  /// The facts behind a group of cluster(), and its host: its place in the inputs.
  const gear_facts::GroupFacts& facts(plugin::GroupId id) const;
  std::size_t host(plugin::GroupId id) const;
  /// As people know it: GROUP, or NODE/GROUP.
  const std::string& name(plugin::GroupId id) const;
  const plugin::PoolView& pool(plugin::GroupId id) const;

  /// Groups on which nothing may be decided, and why.
  struct Left {
    std::string group, why;
  };
  const std::vector<Left>& left_out() const { return left_; }

 private:
  /// A group with what is known of it; like groups_, by id.
  struct Known {
    plugin::GroupId id{};
    std::size_t host = 0;
    const gear_facts::GroupFacts* facts = nullptr;
    std::string name;
  };
  struct Place {
    std::size_t pool = 0;
    const config::PoolConfig* config = nullptr;
  };
  Place place_of(const Known& known, const ViewInputs& inputs);
  std::size_t index_of(plugin::GroupId id) const;
  void add(const Known& known, const gear_facts::GroupRecord* record, const ViewInputs& inputs, Instant now);
  void add_loads(const ViewInputs& inputs);

  std::map<std::string, std::size_t> pool_numbers_;  // by name
  std::deque<std::string> pool_names_;
  std::deque<std::vector<plugin::LoadView>> recent_;
  std::deque<std::string> pool_models_;
  std::vector<plugin::PoolView> pools_;
  std::deque<std::vector<plugin::GearView>> gears_;
  std::vector<plugin::GroupView> groups_;
  std::vector<Known> known_;
  std::vector<GroupRecord> records_;
  std::vector<Left> left_;
};

}  // namespace gearbox::scheduler
