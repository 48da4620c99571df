// spawn.hpp: starts one child with nothing of ours in its hands: no descriptor, no signal mask, no terminal.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

struct SpawnOrder {
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::vector<std::string> env;   // NAME=value, added to our own
  std::filesystem::path log;      // gets stdout and stderr, appended
  /// Called with the child's pid while it waits to execute the program. Whoever dies meanwhile leaves no child: it ends
  /// by itself. So what is written here is there before the program can do anything.
  std::function<void(int pid)> forked;
};

/// Forks and executes; returns the pid once the new program runs. The child leads a session of its own, so a terminal's
/// Ctrl-C does not reach it. When the log cannot be opened its output is dropped: service goes before logs. Errors:
/// io_error: which program could not be started and why; no_space when the system has no process left.
Outcome<int> spawn(const SpawnOrder& order);

}  // namespace gearbox::supervisor
