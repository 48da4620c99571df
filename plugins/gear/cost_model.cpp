#include "gear/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "gear/assignment.hpp"
#include "gear/views.hpp"

namespace gearbox::gear {

namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

double tokens_per_s(const plugin::LoadView& load) {
  return load.requests_per_s * (load.prompt_tokens + load.output_tokens);
}

/// Bytes of weights that one card holds.
double weights_of(const plugin::PoolView& pool, const gears::Layout& layout) {
  return static_cast<double>(pool.model.weight_bytes()) / (layout.tensor * layout.pipeline);
}

/// The open gear that frees most memory of a card and, where `assignment` can tell, carries no less than the group's
/// own; null when none does. A full cache is no harm by itself: what finds no room waits. It would wait longer in a
/// gear with more room that gets less done.
const plugin::GearView* roomiest(const plugin::PoolView& pool, const plugin::GroupView& group,
                                 const Assignment* assignment) {
  const plugin::GearView* own = gear_of(group, group.gear);
  if (own == nullptr) return nullptr;
  const plugin::GearView* found = nullptr;
  double least = weights_of(pool, own->layout);
  for (const plugin::GearView& gear : group.gears) {
    if (!is_open(gear) || weights_of(pool, gear.layout) >= least) continue;
    if (assignment != nullptr &&
        assignment->capacity_of(group, gear.number) < assignment->capacity_of(group, own->number))
      continue;
    least = weights_of(pool, gear.layout);
    found = &gear;
  }
  return found;
}

plugin::Proposal relief(const plugin::PoolView& pool, const plugin::GroupView& group, const plugin::GearView& to,
                        double limit) {
  plugin::Proposal made;
  made.group = group.id;
  made.gear = to.number;
  made.rule = "memory";
  made.urgent = true;
  made.reason = text("memory pressure %.2f is above %.2f: gear %d holds %.3g GB of weights on a card, gear %d %.3g",
                     group.memory_pressure, limit, to.number, weights_of(pool, to.layout) / 1e9, group.gear,
                     weights_of(pool, gear_of(group, group.gear)->layout) / 1e9);
  return made;
}

/// The best gear beside the one that is proposed; the group's own may be it.
std::uint8_t runner_up(const plugin::GroupView& group, const plugin::Proposal& proposal) {
  const plugin::PricedGear* second = nullptr;
  const auto better = [](const plugin::PricedGear& one, const plugin::PricedGear& other) {
    const bool keeps_up = one.latency_s >= 0;
    if (keeps_up != (other.latency_s >= 0)) return keeps_up;
    return keeps_up ? one.latency_s < other.latency_s : one.capacity_per_s > other.capacity_per_s;
  };
  for (const plugin::PricedGear& gear : proposal.priced) {
    const bool possible = gear.gear == group.gear || is_open(*gear_of(group, gear.gear));
    if (!possible || gear.gear == proposal.gear) continue;
    if (second == nullptr || better(gear, *second)) second = &gear;
  }
  return second == nullptr ? std::uint8_t{0} : second->gear;
}

}  // namespace

plugin::LoadView CostModel::expected(const plugin::PoolView& pool) const {
  plugin::LoadView load = tokens_per_s(pool.fast) > tokens_per_s(pool.slow) ? pool.fast : pool.slow;
  for (const plugin::LoadView& window : pool.recent) {
    plugin::LoadView again = window;
    again.requests_per_s *= limits_.expect;
    if (tokens_per_s(again) > tokens_per_s(load)) load = again;
  }
  return load;
}

std::optional<plugin::Proposal> CostModel::for_spare(const Assignment& assignment, const plugin::GroupView& group,
                                                     const plugin::LoadView& load, std::size_t groups) const {
  if (!assignment.is_spare(group)) return std::nullopt;
  const std::uint8_t to = assignment.soonest_gear(group);
  const double now = assignment.latency_of_share(group, group.gear);
  const double then = assignment.latency_of_share(group, to);
  if (to == group.gear || 1 - then / now < limits_.least_gain) return std::nullopt;
  plugin::Proposal made;
  made.group = group.id;
  made.gear = to;
  made.rule = "spare";
  made.gain = 1 - then / now;
  // As if an even share of the requests came there.
  made.gain_requests_s = (now - then) * load.requests_per_s / static_cast<double>(groups) * limits_.horizon_s;
  made.cost_requests_s = group.pause_s * (group.running + group.waiting + load.requests_per_s * group.pause_s);
  if (made.gain_requests_s <= made.cost_requests_s) return std::nullopt;
  made.reason = text(
      "others answer sooner than it can: what comes here all the same takes %.3g s now, %.3g s with this "
      "shift",
      now, then);
  made.priced = assignment.priced(group);
  made.runner_up = runner_up(group, made);
  return made;
}

void CostModel::relieve(const plugin::PoolView& pool, const std::vector<const plugin::GroupView*>& groups,
                        const Assignment* assignment, std::vector<plugin::Proposal>& proposals) const {
  for (const plugin::GroupView* group : groups) {
    if (group->memory_pressure <= limits_.memory) continue;
    if (const plugin::GearView* to = roomiest(pool, *group, assignment); to != nullptr)
      proposals.push_back(relief(pool, *group, *to, limits_.memory));
  }
}

Assignment CostModel::assign(const plugin::PoolView& pool, const std::vector<const plugin::GroupView*>& groups,
                             Instant now, plugin::LoadView& load) {
  Assignment assignment(pool, load, groups, limits_.long_stay);
  if (limits_.remember_s <= 0) return assignment;
  const auto last = overloads_.find(pool.name);
  plugin::LoadView again;
  if (last != overloads_.end()) {
    again = last->second.load;
    again.requests_per_s *=
        std::exp(-std::chrono::duration<double>(now - last->second.at).count() / limits_.remember_s);
  }
  // What was kept up with needs no remembering: the gears were good enough for it, and others may be better by now.
  if (assignment.latency_now() >= Assignment::kNever && tokens_per_s(load) >= tokens_per_s(again)) {
    overloads_.insert_or_assign(std::string(pool.name), Overload{load, now});
  } else if (tokens_per_s(again) > tokens_per_s(load)) {
    load = again;
    assignment = Assignment(pool, load, groups, limits_.long_stay);
  }
  return assignment;
}

void CostModel::of_pool(const plugin::PoolView& pool, std::vector<const plugin::GroupView*> groups, Instant at,
                        std::vector<plugin::Proposal>& proposals) {
  const auto short_of_memory = [&](const plugin::GroupView* group) { return group->memory_pressure > limits_.memory; };
  plugin::LoadView load = expected(pool);
  // Nothing has come yet, or nobody knows what the model is like: nothing can be priced.
  if (load.output_tokens <= 0 || pool.model.layers == 0) return relieve(pool, groups, nullptr, proposals);
  const Assignment assignment = assign(pool, groups, at, load);
  relieve(pool, groups, &assignment, proposals);
  const double now = assignment.latency_now();
  const double best = assignment.latency_best();
  const bool overloaded = now >= Assignment::kNever;
  const bool worth_it = overloaded || 1 - best / now >= limits_.least_gain;
  const std::size_t all = groups.size();

  std::erase_if(groups, short_of_memory);  // their moves are chosen above
  // The emptiest caches first: they cost least to move.
  std::stable_sort(groups.begin(), groups.end(), [](const plugin::GroupView* a, const plugin::GroupView* b) {
    return a->cached_tokens < b->cached_tokens;
  });
  std::uint32_t taken = 0;
  for (const plugin::GroupView* group : groups) {
    const std::uint8_t to = assignment.best_gear(*group);
    if (!worth_it || to == group->gear) continue;
    if (taken == limits_.at_once) break;
    const double with = assignment.latency_with(*group, to);
    plugin::Proposal made;
    made.group = group->id;
    made.gear = to;
    made.rule = "price";
    // Of an overloaded pool no latency can be told: every shift of the best assignment brings it nearer to keeping up.
    // What the whole assignment gains decides whether it is worth going there: of many groups each alone gains little.
    made.gain = overloaded ? 1 : std::max(0.0, 1 - best / now);
    made.gain_requests_s = overloaded ? -1 : std::max(0.0, now - with) * load.requests_per_s * limits_.horizon_s;
    made.cost_requests_s = group->pause_s * (group->running + group->waiting + load.requests_per_s * group->pause_s);
    if (!overloaded && made.gain_requests_s <= made.cost_requests_s) continue;
    const double whole = overloaded ? 1 : 1 - best / now;
    made.urgent = whole > limits_.large_gain;
    const std::string demand =
        text("%.3g requests/s of %.0f + %.0f tokens", load.requests_per_s, load.prompt_tokens, load.output_tokens);
    made.reason = overloaded ? demand + ": the gears of now do not keep up, the best ones " +
                                   (best >= Assignment::kNever ? "do not either" : text("answer in %.3g s", best))
                             : demand + text(": %.3g s a request now, %.3g s with this shift, %.3g s in the best gears",
                                             now, with, best);
    made.priced = assignment.priced(*group);
    made.runner_up = runner_up(*group, made);
    proposals.push_back(std::move(made));
    ++taken;
  }
  // Behind those that matter, and never while the others do not keep up.
  for (const plugin::GroupView* group : groups) {
    if (overloaded || taken == limits_.at_once) break;
    std::optional<plugin::Proposal> made = for_spare(assignment, *group, load, all);
    if (!made) continue;
    proposals.push_back(std::move(*made));
    ++taken;
  }
}

Outcome<std::vector<plugin::Proposal>> CostModel::propose(const plugin::ClusterView& cluster, Instant now) {
  std::vector<plugin::Proposal> proposals;
  std::vector<std::vector<const plugin::GroupView*>> by_pool(cluster.pools.size());
  for (const plugin::GroupView& group : cluster.groups) {
    const auto pool = static_cast<std::size_t>(group.pool);
    if (pool < by_pool.size()) by_pool[pool].push_back(&group);
  }
  for (std::size_t i = 0; i < by_pool.size(); ++i) of_pool(cluster.pools[i], std::move(by_pool[i]), now, proposals);
  return proposals;
}

}  // namespace gearbox::gear
