// spin.hpp: how long a reader polls its ring before it sleeps. Waking a sleeper on another CPU costs 40 to 90 µs, so it
// pays to spin about as long as the wait is expected to be; it never pays when the peer needs this CPU, or the wait is
// long.
#pragma once

#include <algorithm>

#include "gearbox/base/clock.hpp"

namespace gearbox::shm {

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Learns from the waits of one reader. One thread.
class SpinBudget {
 public:
  /// `base` is the configured spin_us; 0 turns spinning off.
  explicit SpinBudget(microseconds base = microseconds{0})
      : base_(base), longest_(std::chrono::nanoseconds(base) * kStretch), expected_(base) {}

  /// How long the last wait was in the end, slept or spun.
  void observe(std::chrono::nanoseconds wait) {
    // Capped, so that after a long pause a few short waits are enough to spin again.
    const auto sample = std::clamp(wait, std::chrono::nanoseconds{0}, 2 * longest_);
    expected_ += (sample - expected_) / 8;
  }

  /// At least `base` and twice the expected wait, nothing when the wait is likely to be longer than spinning is worth.
  std::chrono::nanoseconds now() const {
    if (expected_ > longest_) return std::chrono::nanoseconds{0};
    return std::clamp<std::chrono::nanoseconds>(2 * expected_, base_, longest_ + longest_ / 2);
  }

 private:
  static constexpr int kStretch = 15;  // 20 µs → 300 µs: a 3 MB picture written by one side and read by the other
  std::chrono::nanoseconds base_;
  std::chrono::nanoseconds longest_;
  std::chrono::nanoseconds expected_;
};

}  // namespace gearbox::shm
