// limited_child.hpp: a program that works for us in a process of its own: it gives way to others, has a time limit, and
// what it says is read up to a bound. What it does to itself cannot reach us.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

struct ChildTask {
  std::filesystem::path program;
  std::vector<std::string> words;   // its arguments
  milliseconds wall{0};             // then the child and all of its session are killed
  std::size_t most_bytes = 0;       // of what it prints; the rest is read and dropped
  bool errors_too = false;          // its stderr is read as well, else it is ours
  std::filesystem::path temporary;  // $TMPDIR of it; empty: ours
};

struct ChildEnd {
  enum class How {
    exited,     // by itself; `number` is its exit code
    signalled,  // `number` is the signal
    late,       // killed at the limit
    stopped,    // killed because `stop` was set
    unknown     // somebody else has reaped it
  } how = How::unknown;
  int number = 0;
  std::string output;
};

/// Runs it to its end, in a session of its own, with descriptors 0 (/dev/null), 1 and 2 only. It is killed with all of
/// its session. `stop`: set by another thread to end it early (may be null). Errors: io_error: it could not be started.
Outcome<ChildEnd> run_child(const ChildTask& task, const std::atomic<bool>* stop);

/// "SIGSEGV"
std::string signal_name(int number);

}  // namespace gearbox::plugin_host
