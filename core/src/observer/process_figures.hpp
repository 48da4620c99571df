// process_figures.hpp: what /proc tells of one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gearbox::observer {

struct ProcessFigures {
  std::uint64_t started = 0;         // clock ticks since boot: another number is another process
  std::chrono::nanoseconds cpu{0};   // in user and kernel, all threads
  std::int64_t resident_bytes = -1;  // VmRSS
};

/// Nothing when there is no such process, or it may not be looked at.
std::optional<ProcessFigures> figures_of(std::int64_t pid);

/// The text of /proc/PID/stat; a process's name may hold blanks and parentheses.
std::optional<ProcessFigures> read_stat(std::string_view text, long ticks_per_second, long page_bytes);

}  // namespace gearbox::observer
