#include "plugin_host/health.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gearbox::plugin_host {

namespace {
constexpr std::chrono::minutes kMinute{1};
}

void CallRules::on_trouble(std::function<void()> trouble) {
  const std::lock_guard held(mutex_);
  trouble_ = std::move(trouble);
}

void CallRules::tell_trouble() {
  const std::lock_guard held(mutex_);
  if (trouble_) trouble_();
}

/// Four buckets for each power of two: 16 ns, 20, 24, 28, 32, 40, ...
std::size_t Health::bucket_of(std::uint64_t ns) {
  if (ns < 4) return 0;
  const auto octave = static_cast<std::size_t>(std::bit_width(ns) - 1);
  return std::min(kBuckets - 1, octave * 4 + ((ns >> (octave - 2)) & 3));
}

void Health::called(Clock::duration took) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  // Counters for people; nothing is ordered by them.
  calls_.fetch_add(1, std::memory_order_relaxed);
  took_[bucket_of(ns < 0 ? 0 : static_cast<std::uint64_t>(ns))].fetch_add(1, std::memory_order_relaxed);
}

void Health::fault(const std::string& what, Instant now) {
  faults_.fetch_add(1, std::memory_order_relaxed);
  bool passed = false;
  {
    const std::lock_guard held(mutex_);
    last_fault_ = what;
    if (now - minute_ >= kMinute || now < minute_) {
      minute_ = now;
      in_minute_ = 0;
    }
    ++in_minute_;
    passed = in_minute_ >= rules_->fault_limit.load(std::memory_order_relaxed);
  }
  if (passed && !tripped_.exchange(true, std::memory_order_relaxed)) rules_->tell_trouble();
}

microseconds Health::p99() const {
  std::uint64_t all = 0;
  for (const auto& bucket : took_) all += bucket.load(std::memory_order_relaxed);
  if (all == 0) return microseconds{0};
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(all) * 0.99));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += took_[i].load(std::memory_order_relaxed);
    if (seen < wanted) continue;
    const std::uint64_t edge_ns = i < 8 ? 4 : (std::uint64_t{4 + i % 4 + 1} << (i / 4)) / 4;
    return microseconds(static_cast<std::int64_t>((edge_ns + 999) / 1000));
  }
  return microseconds{0};
}

std::string Health::last_fault() const {
  const std::lock_guard held(mutex_);
  return last_fault_;
}

void Health::forgive() {
  const std::lock_guard held(mutex_);
  in_minute_ = 0;
  tripped_.store(false, std::memory_order_relaxed);
}

}  // namespace gearbox::plugin_host
