// step_window.hpp: how long a worker's steps took over the last ten seconds, in bounded memory: one histogram of
// eighth-octave buckets per second.
#pragma once

#include <array>
#include <cstdint>

#include "gearbox/base/clock.hpp"

namespace gearbox::worker_pool {

class StepWindow {
 public:
  void add(Instant now, microseconds took);
  /// The value that 95 of 100 steps stay below, to within an eighth; zero while there is no sample.
  microseconds p95(Instant now) const;

 private:
  static constexpr std::size_t kSeconds = 10;
  static constexpr std::size_t kBuckets = 256;
  struct Second {
    std::int64_t number = -1;  // of the clock; -1: never used
    std::array<std::uint32_t, kBuckets> counts{};
  };
  std::array<Second, kSeconds> ring_{};
  mutable std::int64_t cached_at_ = -1;  // in tenths of a second: it is asked for at every placement
  mutable microseconds cached_{0};
};

}  // namespace gearbox::worker_pool
