// capture.hpp: the side of `pi_client run` that fills the spool: a thread of its own, so that neither waits for the
// other.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "durable.hpp"
#include "gearbox/base/clock.hpp"
#include "spool_fill.hpp"

namespace gearbox::client {

/// Ends all waits at once, from any thread.
class StopBell {
 public:
  StopBell();
  void stop();
  bool stopped() const;
  /// Until `until`, or until `also` (a descriptor; -1: none) can be read. False: stopped.
  bool wait(Instant until, int also = -1) const;

 private:
  Descriptor bell_;
};

/// What a capture works with. All of it outlives the capture.
struct CaptureEnds {
  SpoolFill* fill = nullptr;
  const StopBell* stop = nullptr;
  std::function<void()> spooled;                        // something was added; any thread
  std::function<void(const std::string& text)> remark;  // for people; any thread
};

/// Blocking; one thread.
class Capture {
 public:
  virtual ~Capture() = default;
  /// Before anything is sent: finishes what the process before was in the middle of.
  virtual void begin() {}
  /// Until the stop bell.
  virtual void run() = 0;
};

/// None when the options ask for none. Errors: bad_input, io_error.
Outcome<std::unique_ptr<Capture>> make_capture(const SpoolOptions& options, Spool* spool, CaptureEnds ends);

}  // namespace gearbox::client
