// process_record.hpp: run/ROLE.json: which process serves a role, told so exactly that a stranger with the same pid is
// not taken for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/boot.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

struct ProcessRecord {
  std::string role;  // "central", "node", "worker-3"
  int pid = 0;
  std::uint64_t start_time =
      0;                // field 22 of /proc/PID/stat: clock ticks since boot; with the pid unique until the next boot
  std::string boot_id;  // of this boot, since start times begin anew after it
  std::vector<std::string> argv;
  std::string exe;     // what /proc/PID/exe showed
  std::string order;   // the launch order that it answers; empty for central and node
  std::string cgroup;  // the one made for it alone, as a folder; empty: none
};

/// Errors: not_found when the process is gone (or a zombie).
Outcome<std::uint64_t> start_time_of(int pid);
/// Is it stopped by a signal or held by a debugger? Then what it does not get done says nothing. False when it is gone.
bool is_stopped(int pid);
/// Has it begun to end, and does it within two seconds? Waits so long for one that was killed just now, whose sockets
/// are open still; of one that runs it is told soon.
bool ends_soon(int pid);
/// What /proc/PID/exe points at, without the kernel's " (deleted)"; empty when it cannot be read.
std::string executable_of(int pid);

/// Is the process of `record` still the one that runs under this pid, does it belong to our user, and does it run the
/// recorded program?
bool still_runs(const ProcessRecord& record);

/// Writes beside and renames: a reader never sees half a record. Errors: io_error.
Outcome<void> write_record(const std::filesystem::path& file, const ProcessRecord& record);
/// Errors: io_error; corrupt_data for text that is no record (empty, cut, zero bytes after a power cut).
Outcome<ProcessRecord> read_record(const std::filesystem::path& file);

}  // namespace gearbox::supervisor
