// wakeup.hpp: how a coroutine waits for "something happened" with a deadline, without cancelling anything.
//
// Asio's cancellation makes every later co_await throw; this is a timer and a flag instead. One strand.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "gearbox/base/clock.hpp"

namespace gearbox::net {

namespace asio = boost::asio;

/// One waiter at a time; a notification that comes while nobody waits is kept (once) for the next wait.
class Wakeup {
 public:
  explicit Wakeup(const asio::any_io_executor& executor) : timer_(executor) {}

  /// From the same strand only; others post to it.
  void notify();
  /// True when notified, false when `deadline` passed first. The object outlives the wait.
  asio::awaitable<bool> wait_until(Instant deadline);

 private:
  asio::steady_timer timer_;
  bool notified_ = false;
};

/// Waits for nothing but time. Returns early only when the caller's own coroutine is cancelled.
asio::awaitable<void> pause_until(Instant deadline);

}  // namespace gearbox::net
