// doorbell.hpp: how one side wakes the other: an eventfd that is only rung, and a flag in the ring (ring.hpp) that says
// whether anybody sleeps. A ring that comes too early or too late is kept by the eventfd, so no wake-up is lost; at
// worst one sleep ends for nothing.
#pragma once

#include <cstdint>

#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/fd.hpp"

namespace gearbox::shm {

class Doorbell {
 public:
  Doorbell() = default;
  explicit Doorbell(Fd fd) : fd_(std::move(fd)) {}
  /// Errors: no_space when descriptors are used up.
  static Outcome<Doorbell> create();

  /// Wakes the sleeper, or its next sleep. Never blocks.
  void ring() const;
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace gearbox::shm
