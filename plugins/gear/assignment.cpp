#include "gear/assignment.hpp"

#include <algorithm>
#include <cmath>

#include "gear/views.hpp"

namespace gearbox::gear {

namespace {

constexpr double kFullest = 0.97;  // share of the capacity up to which a curve goes
constexpr int kHalvings = 40;
constexpr double kSlowestSearched = 3600;  // seconds

/// Links as slow within a quarter count as equal: more kinds would cost time and tell nothing.
double rounded(double slowdown) {
  if (slowdown <= 1) return 1;
  return std::pow(1.25, std::round(std::log(slowdown) / std::log(1.25)));
}

bool same_gears(const plugin::GroupView& a, const plugin::GroupView& b) {
  return std::equal(a.gears.begin(), a.gears.end(), b.gears.begin(), b.gears.end(),
                    [](const plugin::GearView& one, const plugin::GearView& other) {
                      return one.number == other.number && one.layout == other.layout && is_open(one) == is_open(other);
                    });
}

bool same_card(const gears::Card& a, const gears::Card& b) {
  return a.flops == b.flops && a.memory_bandwidth == b.memory_bandwidth && a.memory_bytes == b.memory_bytes &&
         a.bus_bandwidth == b.bus_bandwidth && a.host_step_s == b.host_step_s;
}

std::size_t index_of(const plugin::GroupView& group, std::uint8_t gear) {
  std::size_t index = 0;
  while (index < group.gears.size() && group.gears[index].number != gear) ++index;
  return index;
}

}  // namespace

Curve Curve::of(const gears::Demand& mix, const gears::ModelShape& model, const gears::Card& card,
                const gears::Layout& layout, double link_slowdown) {
  Curve curve;
  gears::Demand at = mix;
  curve.capacity_ = gears::capacity_of(mix, model, card, layout, link_slowdown);
  double last = 0;
  for (int i = 0; i < kPoints; ++i) {
    at.requests_per_s = kFullest * curve.capacity_ * i / (kPoints - 1);
    const gears::SteadyState state = gears::steady_state(at, model, card, layout, link_slowdown, curve.capacity_);
    last = std::max(last, state.stable ? state.latency_s : Assignment::kNever);
    curve.latency_[static_cast<std::size_t>(i)] = last;
  }
  return curve;
}

double Curve::rate_at(double latency_s) const {
  if (capacity_ <= 0) return 0;
  const auto above = std::upper_bound(latency_.begin(), latency_.end(), latency_s);
  if (above == latency_.begin()) return 0;
  const auto point = static_cast<double>(above - latency_.begin());
  const double step = kFullest * capacity_ / (kPoints - 1);
  if (above == latency_.end()) return kFullest * capacity_;
  const double low = *(above - 1);
  return step * (point - 1 + (latency_s - low) / (*above - low));
}

double Curve::latency_at(double rate) const {
  const double step = kFullest * capacity_ / (kPoints - 1);
  if (step <= 0 || rate > kFullest * capacity_) return Assignment::kNever;
  const double at = rate / step;
  const auto low = std::min(static_cast<std::size_t>(at), static_cast<std::size_t>(kPoints - 2));
  return latency_[low] + (at - static_cast<double>(low)) * (latency_[low + 1] - latency_[low]);
}

Assignment::Assignment(const plugin::PoolView& pool, const plugin::LoadView& demand,
                       const std::vector<const plugin::GroupView*>& groups, double long_stay)
    : demand_(demand.requests_per_s) {
  const gears::Demand mix{demand.requests_per_s, demand.prompt_tokens, demand.output_tokens, long_stay};
  for (const plugin::GroupView* group : groups) {
    const double slowdown = rounded(group->link_slowdown);
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const GroupKind& known) {
      return known.slowdown == slowdown && same_card(known.sample->card, group->card) &&
             same_gears(*known.sample, *group);
    });
    if (kind == kinds_.end()) {
      GroupKind fresh{group, slowdown, {}, std::vector<std::uint32_t>(group->gears.size()), {}};
      for (const plugin::GearView& gear : group->gears) {
        fresh.curves.push_back(Curve::of(mix, pool.model, group->card, gear.layout, slowdown));
        fresh.open.push_back(is_open(gear));
      }
      kinds_.push_back(std::move(fresh));
      kind = kinds_.end() - 1;
    }
    ++kind->groups;
    if (const std::size_t index = index_of(*group, group->gear); index < kind->now.size()) ++kind->now[index];
  }
  double carried = 0;
  for (const GroupKind& kind : kinds_) carried += kind.groups * kind.most();
  used_ = carried > 0 ? demand_ / carried : 1;
  now_ = lowest([&](double latency) { return carried_now(latency, nullptr); });
  best_ = lowest([&](double latency) { return carried_best(latency); });
}

const GroupKind& Assignment::kind_of(const plugin::GroupView& group) const {
  const double slowdown = rounded(group.link_slowdown);
  return *std::find_if(kinds_.begin(), kinds_.end(), [&](const GroupKind& known) {
    return known.slowdown == slowdown && same_card(known.sample->card, group.card) && same_gears(*known.sample, group);
  });
}

double Assignment::carried_now(double latency, const Change* change) const {
  double carried = 0;
  for (const GroupKind& kind : kinds_) {
    for (std::size_t i = 0; i < kind.curves.size(); ++i) {
      double groups = kind.now[i];
      if (change != nullptr && change->kind == &kind) groups += (i == change->to) - (i == change->from);
      if (groups > 0) carried += groups * kind.curves[i].rate_at(latency);
    }
  }
  return carried;
}

double Assignment::carried_best(double latency) const {
  double carried = 0;
  for (const GroupKind& kind : kinds_) {
    double open = 0;
    for (std::size_t i = 0; i < kind.curves.size(); ++i) {
      if (kind.open[i]) open = std::max(open, kind.curves[i].rate_at(latency));
    }
    // A group may always stay where it is.
    for (std::size_t i = 0; i < kind.curves.size(); ++i)
      carried += kind.now[i] * std::max(open, kind.curves[i].rate_at(latency));
  }
  return carried;
}

template <class Carried>
double Assignment::lowest(Carried carried) const {
  double low = 0;
  double high = kSlowestSearched;
  // Without any demand it is the latency of the one request that may come.
  const double demand = std::max(demand_, 1e-6);
  if (carried(high) < demand) return kNever;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (carried(middle) < demand ? low : high) = middle;
  }
  return high;
}

std::uint8_t Assignment::best_gear(const plugin::GroupView& group) const {
  const GroupKind& kind = kind_of(group);
  std::uint8_t best = group.gear;
  const std::size_t own = index_of(group, group.gear);
  const double latency = std::min(best_, kSlowestSearched);
  double most = own < kind.curves.size() ? kind.curves[own].rate_at(latency) : 0;
  for (std::size_t i = 0; i < kind.curves.size(); ++i) {
    const double rate = kind.curves[i].rate_at(latency);
    if (!kind.open[i] || rate <= most) continue;
    most = rate;
    best = group.gears[i].number;
  }
  return best;
}

bool Assignment::is_spare(const plugin::GroupView& group) const {
  const GroupKind& kind = kind_of(group);
  const double latency = std::min(best_, kSlowestSearched);
  for (std::size_t i = 0; i < kind.curves.size(); ++i) {
    const bool possible = kind.open[i] || group.gears[i].number == group.gear;
    if (possible && kind.curves[i].rate_at(latency) > 0) return false;
  }
  return true;
}

double GroupKind::most() const {
  double most = 0;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (open[i] || now[i] > 0) most = std::max(most, curves[i].capacity());
  }
  return most;
}

double Assignment::latency_of_share(const plugin::GroupView& group, std::uint8_t gear) const {
  const GroupKind& kind = kind_of(group);
  const std::size_t index = index_of(group, gear);
  return index < kind.curves.size() ? kind.curves[index].latency_at(used_ * kind.most()) : kNever;
}

std::uint8_t Assignment::soonest_gear(const plugin::GroupView& group) const {
  std::uint8_t soonest = group.gear;
  for (const plugin::GearView& gear : group.gears) {
    if (is_open(gear) && latency_of_share(group, gear.number) < latency_of_share(group, soonest)) soonest = gear.number;
  }
  return soonest;
}

double Assignment::capacity_of(const plugin::GroupView& group, std::uint8_t gear) const {
  const GroupKind& kind = kind_of(group);
  const std::size_t index = index_of(group, gear);
  return index < kind.curves.size() ? kind.curves[index].capacity() : 0;
}

double Assignment::latency_with(const plugin::GroupView& group, std::uint8_t to) const {
  const Change change{&kind_of(group), index_of(group, group.gear), index_of(group, to)};
  return lowest([&](double latency) { return carried_now(latency, &change); });
}

std::vector<plugin::PricedGear> Assignment::priced(const plugin::GroupView& group) const {
  const GroupKind& kind = kind_of(group);
  std::vector<plugin::PricedGear> all;
  for (std::size_t i = 0; i < kind.curves.size(); ++i) {
    const Change change{&kind, index_of(group, group.gear), i};
    const double latency = lowest([&](double at) { return carried_now(at, &change); });
    all.push_back({group.gears[i].number, latency >= kNever ? -1 : latency, kind.curves[i].capacity()});
  }
  return all;
}

}  // namespace gearbox::gear
