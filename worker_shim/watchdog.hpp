// watchdog.hpp: the thread that ends this process within a bound whatever Python or native code is doing.
// It also gives the node its sign of life.
//
// Two things need it: a signal to stop that arrives while the model computes, and work that has a limit (loading,
// leaving). Python's own signal handlers are off: they only run between bytecodes, which a blocked native call never
// reaches.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "options.hpp"

namespace gearbox::shim {

/// One per process. Every function may be called from any thread.
class Watchdog {
 public:
  /// Catches SIGTERM and SIGINT, ignores SIGPIPE, starts the thread. Errors: io_error.
  static Outcome<void> start();

  /// True once a signal asked this process to end. The main loop then leaves by itself; after `kGrace` it is ended.
  static bool stopping();

  /// Ends the process with `code` and `why` on stderr if disarm() has not been called in time.
  static void arm(std::chrono::milliseconds limit, ExitCode code, std::string why);
  static void disarm();

  /// The node that this process is attached to. Both functions are called on the watchdog's thread, several times a
  /// second, whatever Python or the model do.
  struct Node {
    std::function<void()> beat;
    std::function<bool()> gone;
    std::chrono::milliseconds limit{};
  };
  /// When `gone` has been true for `limit`, the process ends: the node is gone, and the model's call does not come
  /// back, or whoever holds the GIL does not let go of it.
  static void watch_node(Node node);
  /// Once it returns, neither function is called any more.
  static void forget_node();
  /// Has `gone` been true at the last look? Costs nothing, so it may be asked around each call.
  static bool node_gone();

  /// Is the model running a call?
  static void busy(bool is);

  static constexpr std::chrono::milliseconds kGrace{2000};
};

/// Ends the process at once: no destructors, no exit handlers, no flushing, no waiting for threads.
[[noreturn]] void leave(ExitCode code);

}  // namespace gearbox::shim
