// assignment.hpp: which gears a pool's groups should be in, by price.
//
// Requests go where they are expected to finish first, so the groups of a pool share one latency. For each kind of
// group and each gear a curve tells the rate that it carries at a latency; the best assignment is the lowest latency at
// which the rates of all groups, each in its best gear for that latency, add up to the demand.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gearbox/gears/price.hpp"
#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

/// What one group carries in one gear at a latency.
class Curve {
 public:
  static Curve of(const gears::Demand& mix, const gears::ModelShape& model, const gears::Card& card,
                  const gears::Layout& layout, double link_slowdown);
  double capacity() const { return capacity_; }
  /// Requests a second at which the mean latency is `latency_s`; 0 below what an idle group needs.
  double rate_at(double latency_s) const;
  /// Mean latency at so many requests a second; Assignment::kNever when it cannot carry them.
  double latency_at(double rate) const;

 private:
  static constexpr int kPoints = 20;
  double capacity_ = 0;
  std::array<double, kPoints> latency_{};  // at rising shares of the capacity
};

/// Groups that cannot be told apart by price: same card, same gears, links as slow.
struct GroupKind {
  const plugin::GroupView* sample;
  double slowdown;
  std::vector<Curve> curves;       // of sample->gears, in their order
  std::vector<std::uint32_t> now;  // groups in each of them
  std::vector<bool> open;          // may be shifted to
  std::uint32_t groups = 0;

  /// What one carries at most, in an open gear or one that some are in.
  double most() const;
};

class Assignment {
 public:
  static constexpr double kNever = 1e9;  // seconds: the demand is not met at any latency

  Assignment(const plugin::PoolView& pool, const plugin::LoadView& demand,
             const std::vector<const plugin::GroupView*>& groups, double long_stay = 1);

  double latency_now() const { return now_; }
  double latency_best() const { return best_; }
  /// The gear that `group` has in the best assignment; its own when nothing open is better.
  std::uint8_t best_gear(const plugin::GroupView& group) const;
  /// In the best assignment no request goes there: others answer sooner in any case.
  bool is_spare(const plugin::GroupView& group) const;
  /// The open gear in which a group answers soonest under an even share of the demand; its own when none is sooner. For
  /// spare groups: balancers send some there all the same.
  std::uint8_t soonest_gear(const plugin::GroupView& group) const;
  /// Its latency under a share of the demand as large as its share of what all groups could carry.
  double latency_of_share(const plugin::GroupView& group, std::uint8_t gear) const;
  /// Requests a second that it carries at most in `gear`; 0 in one that it does not have.
  double capacity_of(const plugin::GroupView& group, std::uint8_t gear) const;
  /// The pool's latency when `group` alone goes to gear `to`.
  double latency_with(const plugin::GroupView& group, std::uint8_t to) const;
  /// Each of the group's gears, with the pool's latency when the group alone is in it.
  std::vector<plugin::PricedGear> priced(const plugin::GroupView& group) const;

 private:
  struct Change {
    const GroupKind* kind;
    std::size_t from, to;  // indices of gears
  };
  const GroupKind& kind_of(const plugin::GroupView& group) const;
  double carried_now(double latency, const Change* change) const;
  double carried_best(double latency) const;
  template <class Carried>
  double lowest(Carried carried) const;

  double demand_;
  double used_ = 0;  // demand ÷ what all groups could carry, each in its open gear that carries most
  std::vector<GroupKind> kinds_;
  double now_ = 0;
  double best_ = 0;
};

}  // namespace gearbox::gear
