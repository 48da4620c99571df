// central_lock.hpp: the right to be the central of one state folder: at most one process has it.
//
// A record lock of the kernel on run/central.lock: it goes with its holder, however that ends, and at no other time. A
// holder that stands still (SIGSTOP, a debugger) keeps it, so there are never two centrals that write.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

/// Held from take() until it is destroyed. One object per file and process: closing any descriptor of the file gives a
/// record lock back.
class CentralLock {
 public:
  /// Opens or makes `file` (mode 0600). Errors: io_error.
  static Outcome<CentralLock> open(const std::filesystem::path& file);
  CentralLock(CentralLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  CentralLock& operator=(CentralLock&&) = delete;
  ~CentralLock();

  /// Takes it at once or not at all. Nothing: it is ours now; else the pid of its holder (0: it was given back just
  /// now). Errors: io_error.
  Outcome<std::optional<int>> take();

 private:
  explicit CentralLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace gearbox::central
