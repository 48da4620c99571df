// interpreter.hpp: starts the environment's Python inside this process, as if its own `python` had been run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::shim {

struct Environment {
  std::string name;              // for messages
  std::filesystem::path python;  // the environment's interpreter
};

/// Looks at the environment without running it, where that is enough: is its python there, and of the version this
/// program is built for? Errors: not_found, unsupported_version; both say what to do.
Outcome<void> check_environment(const Environment& environment);

/// An executable embeds one interpreter: for an environment of another Python version X.Y, `worker_shim-X.Y` beside
/// this one (scripts/build-shim makes it) takes this process over, with the same arguments. Returns when there is none,
/// or none is needed. Before any thread is started: exec would leave their signal masks behind.
void hand_over_to_other_version(const Environment& environment, char** argv);

/// OMP_NUM_THREADS and its kin: numeric libraries read them once, when they are loaded. Before start_python().
void set_thread_limits(std::uint32_t threads);

/// Initialises Python; the calling thread then holds the GIL. `folders` come first in sys.path, in that order.
/// Nothing of the user's own Python (PYTHON* variables, user site) takes part; sys.prefix is the environment's.
/// Never finalised: threads that the model left running would block that for ever (see Watchdog and leave()).
/// Errors: not_found, with Python's own reason.
Outcome<void> start_python(const Environment& environment, const std::vector<std::filesystem::path>& folders);

/// Where the Python side of the shim lies: lib/gearbox/python beside the folder of this executable.
/// Errors: not_found.
Outcome<std::filesystem::path> helper_folder();

}  // namespace gearbox::shim
