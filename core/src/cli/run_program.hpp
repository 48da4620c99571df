// run_program.hpp: runs a program to its end, within limits, and keeps the end of what it prints.
#pragma once

#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

struct ProgramEnd {
  int exit_code = -1;  // -1: killed, by a signal or because it took too long
  bool timed_out = false;
  std::string output;  // the last 4 KiB of stdout and stderr
};

/// argv[0] is a path. Blocks up to `within`; then its whole process group is killed. Errors: io_error when it cannot be
/// started.
Outcome<ProgramEnd> run_program(std::vector<std::string> argv, milliseconds within);

}  // namespace gearbox::cli
