#include "dispatch/fair_queue.hpp"

#include <algorithm>
#include <iterator>

namespace gearbox::dispatch {

namespace {
constexpr double kUnknownCost = 1;  // until a call has run; corrected then
constexpr double kMeanOver = 16;    // calls, about
}  // namespace

/// The flow, taken out of the order in which flows have their turns: its tag and its calls may be changed.
FairQueue::Flow& FairQueue::begin_change(Level& level, std::uint32_t tenant) {
  const auto [found, is_new] = level.flows.try_emplace(tenant);
  Flow& flow = found->second;
  if (is_new) {
    flow.tag = level.virtual_time;
  } else if (flow.calls.empty()) {
    level.ahead.erase({flow.tag, tenant});
  } else {
    level.turns.erase({flow.tag, flow.since, tenant});
  }
  return flow;
}

void FairQueue::end_change(Levels::iterator at, std::uint32_t tenant, Flow& flow) {
  Level& level = at->second;
  if (!flow.calls.empty()) {
    level.turns.insert({flow.tag, flow.since, tenant});
  } else if (flow.tag > level.virtual_time) {
    level.ahead.insert({flow.tag, tenant});
  } else {
    level.flows.erase(tenant);  // as a newcomer it would begin no later
  }
  while (!level.ahead.empty() && level.ahead.begin()->first <= level.virtual_time) {
    level.flows.erase(level.ahead.begin()->second);
    level.ahead.erase(level.ahead.begin());
  }
  if (level.flows.empty()) levels_.erase(at);
}

/// The highest priority that has calls; there are at most 256.
template <class Map>
auto FairQueue::next_level(Map& levels) {
  return std::find_if(levels.begin(), levels.end(), [](const auto& level) { return !level.second.turns.empty(); });
}

void FairQueue::push(Item item, const Owner& owner) {
  const auto level = levels_.try_emplace(owner.priority).first;
  Flow& flow = begin_change(level->second, owner.tenant);
  if (flow.calls.empty()) flow.since = ++changes_;
  flow.calls.push_back({item, std::max(owner.weight, 1U)});
  where_[item] = {owner.priority, owner.tenant, std::prev(flow.calls.end())};
  end_change(level, owner.tenant, flow);
}

void FairQueue::put_back(Item item, const Owner& owner, double charged) {
  const auto level = levels_.try_emplace(owner.priority).first;
  Flow& flow = begin_change(level->second, owner.tenant);
  flow.tag -= charged;  // perhaps behind the virtual time
  flow.since = 0;       // before those with the same tag, as when it went
  flow.calls.push_front({item, std::max(owner.weight, 1U)});
  where_[item] = {owner.priority, owner.tenant, flow.calls.begin()};
  end_change(level, owner.tenant, flow);
}

FairQueue::Item FairQueue::front() const {
  const Level& level = next_level(levels_)->second;
  return level.flows.at(level.turns.begin()->tenant).calls.front().item;
}

double FairQueue::pop() {
  const auto at = next_level(levels_);
  Level& level = at->second;
  const std::uint32_t tenant = level.turns.begin()->tenant;
  Flow& flow = begin_change(level, tenant);
  // The tag of a call that was put back may lie behind: for the others time does not run backwards.
  level.virtual_time = std::max(level.virtual_time, flow.tag);
  const double charged = (mean_ > 0 ? mean_ : kUnknownCost) / flow.calls.front().weight;
  where_.erase(flow.calls.front().item);
  flow.calls.pop_front();
  flow.tag += charged;
  flow.since = ++changes_;
  end_change(at, tenant, flow);
  return charged;
}

bool FairQueue::remove(Item item) {
  const auto found = where_.find(item);
  if (found == where_.end()) return false;
  const Place place = found->second;
  where_.erase(found);
  const auto level = levels_.find(place.priority);
  Flow& flow = begin_change(level->second, place.tenant);
  flow.calls.erase(place.at);
  end_change(level, place.tenant, flow);
  return true;
}

std::vector<FairQueue::Item> FairQueue::items() const {
  std::vector<Item> all;
  all.reserve(where_.size());
  for (const auto& [priority, level] : levels_) {
    for (const Turn& turn : level.turns) {
      for (const Waiting& call : level.flows.at(turn.tenant).calls) all.push_back(call.item);
    }
  }
  return all;
}

void FairQueue::ran(const Owner& owner, double charged, double cost) {
  if (!(cost > 0)) return;
  mean_ = mean_ > 0 ? mean_ + (cost - mean_) / kMeanOver : cost;
  const auto level = levels_.try_emplace(owner.priority).first;
  Flow& flow = begin_change(level->second, owner.tenant);
  flow.tag += cost / std::max(owner.weight, 1U) - charged;
  end_change(level, owner.tenant, flow);
}

}  // namespace gearbox::dispatch
