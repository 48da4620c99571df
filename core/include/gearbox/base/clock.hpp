// clock.hpp: monotonic time only; no timeout, eviction or shift may follow the wall clock.
#pragma once

#include <chrono>

namespace gearbox {

using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// `now` + `wait`, never wrapping past the end of time.
inline Instant after(Instant now, milliseconds wait) {
  constexpr milliseconds kLongest = std::chrono::hours(24 * 365);
  return now + (wait > kLongest ? kLongest : wait);
}

/// Whole microseconds from `from` to `to`; zero when `to` is earlier.
inline microseconds elapsed(Instant from, Instant to) {
  return to <= from ? microseconds{0} : std::chrono::duration_cast<microseconds>(to - from);
}

}  // namespace gearbox
