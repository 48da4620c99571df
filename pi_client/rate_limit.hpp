// rate_limit.hpp: spreads bytes, or beginnings, over time. Time is passed in; one strand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gearbox/base/clock.hpp"

namespace gearbox::client {

/// `per` units take `time`; whoever takes some waits until those taken before have had their time.
class RateLimit {
 public:
  /// per = 0: no limit.
  RateLimit(std::uint64_t per, milliseconds time) : per_(per), time_(time) {}

  bool limits() const { return per_ > 0; }
  std::uint64_t per() const { return per_; }

  /// From when on take() would let something go at once.
  Instant free_at() const { return limits() ? free_at_ : Instant{}; }

  /// Takes `units` at `now`; they may be used from the returned moment on. Time that nobody used is lost: no bursts.
  Instant take(std::uint64_t units, Instant now) {
    if (!limits()) return now;
    const Instant from = std::max(now, free_at_);
    const double share = static_cast<double>(units) / static_cast<double>(per_);
    const auto took = std::chrono::duration<double>(std::chrono::duration<double>(time_) * share);
    free_at_ = from + std::chrono::duration_cast<Clock::duration>(std::min(took, std::chrono::duration<double>(3600)));
    return from;
  }

 private:
  std::uint64_t per_;
  milliseconds time_;
  Instant free_at_{};
};

}  // namespace gearbox::client
