#include "central/rate_limiter.hpp"

#include <algorithm>
#include <cmath>

namespace gearbox::central {

namespace {
constexpr double kMinuteUs = 60e6;
}

RateLimiter::RateLimiter(std::uint32_t tries_per_minute, std::size_t max_groups)
    : burst_(std::max(1U, tries_per_minute)), max_groups_(max_groups), overflow_{burst_, Instant{}} {}

void RateLimiter::allow(std::uint32_t tries_per_minute) {
  const double before = burst_;
  burst_ = std::max(1U, tries_per_minute);
  // Who owes a try owes it still: what is left is moved by as much as a full bucket is.
  for (auto& [group, bucket] : buckets_) bucket.tries += burst_ - before;
  overflow_.tries += burst_ - before;
}

double RateLimiter::left(const Bucket& bucket, Instant now) const {
  const auto waited = static_cast<double>(elapsed(bucket.at, now).count());
  return std::min(burst_, bucket.tries + waited * burst_ / kMinuteUs);
}

milliseconds RateLimiter::wait(std::string_view group, Instant now) const {
  const auto found = buckets_.find(group);
  // An unknown group shares the overflow bucket only while the table has no room for it.
  double tries = burst_;
  if (found != buckets_.end()) {
    tries = left(found->second, now);
  } else if (buckets_.size() >= max_groups_) {
    tries = left(overflow_, now);
  }
  if (tries >= 1) return milliseconds{0};
  return milliseconds{static_cast<std::int64_t>(std::ceil((1 - tries) * kMinuteUs / burst_ / 1000))};
}

void RateLimiter::failed(std::string_view group, Instant now) {
  auto found = buckets_.find(group);
  if (found == buckets_.end() && buckets_.size() >= max_groups_) forget_full(now);
  if (found == buckets_.end() && buckets_.size() < max_groups_) {
    found = buckets_.emplace(std::string(group), Bucket{burst_, now}).first;
  }
  Bucket& bucket = found == buckets_.end() ? overflow_ : found->second;
  bucket.tries = left(bucket, now) - 1;
  bucket.at = now;
}

void RateLimiter::forget_full(Instant now) {
  std::erase_if(buckets_, [&](const auto& entry) { return left(entry.second, now) >= burst_; });
}

}  // namespace gearbox::central
