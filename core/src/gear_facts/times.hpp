// times.hpp: instants that are written down or told to others. Deadlines are never made of these.
#pragma once

#include <ctime>

#include <chrono>
#include <cstdint>

namespace gearbox::gear_facts {

/// Milliseconds of this host's boot: one count for all its processes; a restart of them does not begin it anew.
inline std::int64_t boot_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Of the wall clock, for people.
inline std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace gearbox::gear_facts
