#include "worker_pool/step_window.hpp"

#include <algorithm>
#include <bit>

namespace gearbox::worker_pool {

namespace {
std::int64_t second_of(Instant now) {
  return std::chrono::duration_cast<seconds>(now.time_since_epoch()).count();
}
/// 0..7 exactly, then eight buckets per doubling.
std::size_t bucket_of(std::uint64_t us) {
  if (us < 8) return static_cast<std::size_t>(us);
  const auto power = static_cast<std::size_t>(std::bit_width(us) - 1);
  return (power - 2) * 8 + static_cast<std::size_t>((us >> (power - 3)) & 7);
}
std::uint64_t upper_end(std::size_t bucket) {
  if (bucket < 8) return bucket;
  const std::size_t power = bucket / 8 + 2;
  return ((std::uint64_t{8} + bucket % 8 + 1) << (power - 3)) - 1;
}
}  // namespace

void StepWindow::add(Instant now, microseconds took) {
  const std::int64_t number = second_of(now);
  Second& second = ring_[static_cast<std::size_t>(number % static_cast<std::int64_t>(kSeconds))];
  if (second.number != number) {
    second.counts.fill(0);
    second.number = number;
  }
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0));
  ++second.counts[std::min(bucket_of(us), kBuckets - 1)];
}

microseconds StepWindow::p95(Instant now) const {
  const std::int64_t tenth = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() / 100;
  if (tenth == cached_at_) return cached_;
  const std::int64_t oldest = second_of(now) - static_cast<std::int64_t>(kSeconds) + 1;
  std::array<std::uint64_t, kBuckets> sums{};
  std::uint64_t all = 0;
  for (const Second& second : ring_) {
    if (second.number < oldest) continue;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      sums[i] += second.counts[i];
      all += second.counts[i];
    }
  }
  cached_at_ = tenth;
  cached_ = microseconds{0};
  std::uint64_t below = 0;
  for (std::size_t i = 0; all > 0 && i < kBuckets; ++i) {
    below += sums[i];
    if (below * 100 >= all * 95) {
      cached_ = microseconds(static_cast<std::int64_t>(upper_end(i)));
      break;
    }
  }
  return cached_;
}

}  // namespace gearbox::worker_pool
