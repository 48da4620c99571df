// printer.hpp: lines to a terminal or pipe that may stall or go away, without holding up the supervisor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace gearbox::supervisor {

/// A queue of at most kMaxLines in front of one writing thread. At the limit the oldest line gives way, and the next
/// line that gets out says how many are missing; the log files have them all. Any thread.
class Printer {
 public:
  static constexpr std::size_t kMaxLines = 2000;

  /// `descriptor` stays the caller's. Colours are used on a terminal, unless NO_COLOR is set.
  explicit Printer(int descriptor);
  /// Waits up to a second for what is queued, then leaves it.
  ~Printer();
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

  /// One line of `role`: "role | text".
  void line(std::string_view role, std::string_view text);

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // shared with the thread: one that is stuck in a write outlives this object
  std::thread thread_;
};

}  // namespace gearbox::supervisor
