#include "replay/control.hpp"

#include <algorithm>

namespace gearbox::replay {

namespace {

constexpr Nanos kHour = 3600 * kSecond;
constexpr milliseconds kNeverShifted{24 * 3'600'000};
constexpr double kRoom = 0.92;  // of a gear's cache that may be full after a shift: the governor's margin of 8 %

/// Rates add up, lengths are means weighted by the rates: as the live view does it.
void add_to(plugin::LoadView& sum, const plugin::LoadView& more) {
  const double both = sum.requests_per_s + more.requests_per_s;
  const auto mean = [&](double one, double other) {
    return both <= 0 ? std::max(one, other) : (one * sum.requests_per_s + other * more.requests_per_s) / both;
  };
  sum.prompt_tokens = mean(sum.prompt_tokens, more.prompt_tokens);
  sum.output_tokens = mean(sum.output_tokens, more.output_tokens);
  sum.requests_per_s = both;
}

void add_to(std::vector<plugin::LoadView>& sum, const std::vector<plugin::LoadView>& more) {
  if (more.size() > sum.size()) sum.insert(sum.begin(), more.size() - sum.size(), plugin::LoadView{});
  for (std::size_t i = 0; i < more.size(); ++i) add_to(sum[sum.size() - more.size() + i], more[i]);
}

milliseconds as_ms(Nanos time) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(time));
}

}  // namespace

double seconds_to_move(const Group& group) {
  if (group.setting().cards < 2) return 0;
  const double bytes = group.cached() * static_cast<double>(group.setting().model->shape.cache_bytes_per_token());
  return bytes / (group.setting().cards * group.setting().card->peer_bandwidth) * group.link_slowdown();
}

Control::Control(const Scenario& scenario, Site& site)
    : scenario_(scenario),
      site_(site),
      trust_(site.node_names().size()),
      busy_(site.groups().size()),
      gears_(site.groups().size()) {}

void Control::observe(Nanos now) {
  const double seconds = in_seconds(now - observed_at_);
  observed_at_ = now;
  if (seconds <= 0) return;
  for (std::uint32_t i = 0; i < site_.groups().size(); ++i) {
    Group& group = site_.group(i);
    double busy = 0;
    double compute = 0;
    for (Replica& replica : group.replicas()) {
      busy += replica.take_busy(now);
      compute += replica.take_compute_seconds();
    }
    const double all = seconds * static_cast<double>(group.replicas().size());
    busy_[i] = std::min(1.0, busy / all);
    group.busy.add(busy_[i]);
    group.activity.add(std::min(1.0, compute / all));
    group.arrivals.add(group.counters, as_instant(now));
  }
  std::vector<scheduler::LinkSample> samples(trust_.size());
  for (const Group& group : site_.groups()) {
    scheduler::LinkSample& sample = samples[group.setting().node];
    sample.bandwidth_share = std::min(sample.bandwidth_share, 1 / group.link_slowdown());
    sample.failed = sample.failed || group.phase == Group::Phase::down;
  }
  for (std::size_t node = 0; node < trust_.size(); ++node) trust_[node].add(samples[node], scheduler::TrustRules());
}

double Control::expected_pause(const Group& group) const {
  const ShiftCost& cost = scenario_.cluster->shift;
  return cost.pause_s + (cost.how == ShiftCost::How::in_flight ? seconds_to_move(group) : 0);
}

void Control::add_pools(Nanos now) {
  // A node that is not trusted has pools of its own: the second half.
  const std::size_t count = site_.pools().size();
  if (pools_.empty()) {
    pool_names_.reserve(2 * count);
    for (std::size_t i = 0; i < 2 * count; ++i)
      pool_names_.push_back(site_.pools()[i % count].name + (i < count ? "" : " (not trusted)"));
  }
  pools_.assign(2 * count, plugin::PoolView());
  recent_.assign(2 * count, {});
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const Pool& pool = site_.pools()[i % count];
    pools_[i].id = plugin::PoolId{static_cast<std::uint32_t>(i)};
    pools_[i].name = pool_names_[i];
    pools_[i].model = pool.model->shape;
    if (i >= count) continue;
    pools_[i].waiting = static_cast<std::uint32_t>(pool.waiting.size());
    for (const RequestIndex index : pool.waiting)
      pools_[i].oldest_wait = std::max(pools_[i].oldest_wait, as_ms(now - site_.requests()[index].arrival.at));
  }
}

void Control::add_group(std::uint32_t index, Nanos now) {
  Group& group = site_.group(index);
  const Pool& pool = site_.pools()[group.setting().pool];
  const scheduler::Trust& trust = trust_[group.setting().node];
  const auto at = group.setting().pool + (trust.distrusted() ? site_.pools().size() : 0);

  std::vector<plugin::GearView>& gears = gears_[index];
  gears.clear();
  const double cached = group.cached();
  for (std::uint8_t number = 1; number <= gears::kGears; ++number) {
    const auto layout = group.layout_of(number);
    if (!layout || (group.setting().cards == 1 && number != group.gear())) continue;
    plugin::GearView gear;
    gear.number = number;
    gear.layout = *layout;
    const bool in_pool = pool.spec == nullptr || pool.spec->gears.empty() ||
                         std::find(pool.spec->gears.begin(), pool.spec->gears.end(), number) != pool.spec->gears.end();
    gear.allowed = in_pool && (!trust.distrusted() || layout->cards_of_replica() == 1);
    const double room = kRoom * group.capacity_of(number);
    gear.fits = cached <= room * layout->replicas && group.largest_room() <= room;
    gears.push_back(gear);
  }

  plugin::GroupView view;
  view.id = plugin::GroupId{index};
  view.pool = plugin::PoolId{static_cast<std::uint32_t>(at)};
  view.node = group.setting().node;
  view.card = *group.setting().card;
  view.gear = group.gear();
  view.gears = gears;
  view.since_shift = group.shifted_at < 0 ? kNeverShifted : as_ms(now - group.shifted_at);
  view.busy_mean = group.busy.mean();
  view.busy_peak = group.busy.peak();
  view.burstiness = group.busy.burstiness();
  if (scenario_.cluster->tells_activity) view.activity = group.activity.mean();
  view.memory_pressure = group.pressure();
  view.link_slowdown = group.link_slowdown();
  view.link_health = 1 / group.link_slowdown();
  view.trust = trust.value();
  view.waiting = static_cast<std::uint32_t>(group.waiting.size());
  view.running = group.running();
  view.cached_tokens = static_cast<std::uint64_t>(cached);
  view.pause_s = expected_pause(group);
  views_.push_back(view);

  scheduler::GroupRecord record;
  record.group = view.id;
  record.came_from = group.came_from;
  while (!group.last_shifts.empty() && group.last_shifts.front() < now - kHour) group.last_shifts.pop_front();
  record.shifts_of_hour = static_cast<std::uint32_t>(group.last_shifts.size());
  record.shifting = group.target != 0;
  records_.push_back(record);

  plugin::PoolView& its = pools_[at];
  add_to(its.fast, group.arrivals.fast());
  add_to(its.slow, group.arrivals.slow());
  add_to(recent_[at], group.arrivals.recent());
  if (!group.waiting.empty())
    its.oldest_wait = std::max(its.oldest_wait, as_ms(now - site_.requests()[group.waiting.front()].arrival.at));
}

std::vector<scheduler::Decision> Control::decide(Nanos now, Result& result) {
  std::vector<scheduler::Decision> decisions;
  if (scenario_.policy == nullptr) return decisions;
  add_pools(now);
  views_.clear();
  records_.clear();
  for (std::uint32_t i = 0; i < site_.groups().size(); ++i) {
    if (site_.group(i).phase != Group::Phase::down) add_group(i, now);
  }
  for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i].recent = recent_[i];
  if (views_.empty()) return decisions;
  const plugin::ClusterView cluster{pools_, views_};
  auto proposed = scenario_.policy->propose(cluster, as_instant(now));
  if (!proposed) {
    if (result.policy_fault.empty()) result.policy_fault = describe(proposed.error());
    return decisions;
  }
  std::vector<scheduler::Wish> wishes;
  for (plugin::Proposal& proposal : proposed.value())
    wishes.push_back({std::move(proposal), scheduler::Origin::scheduler});
  const auto minute = static_cast<std::uint16_t>(now / (60 * kSecond) % 1440);
  decisions = scheduler::judge(cluster, records_, std::move(wishes), scenario_.rules, minute);
  for (const scheduler::Decision& decision : decisions) {
    if (!decision.shift) ++result.held_back[decision.governor];
  }
  std::erase_if(decisions, [](const scheduler::Decision& decision) { return !decision.shift; });
  return decisions;
}

}  // namespace gearbox::replay
