// tasks.hpp: owners for coroutines, a way to wake them, and a way to compute off the strand. One strand, except
// on_pool's work.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "gearbox/base/clock.hpp"

namespace gearbox::client {

namespace asio = boost::asio;

/// Wakes whoever waits; says nothing about why: waiters look at the state again. Outlives its waiters.
class Bell {
 public:
  explicit Bell(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() {
    for (asio::steady_timer* timer : waiting_) timer->cancel();
  }
  /// Returns at `until` or after the next ring(). One timer for each waiter: a shared one would let waiters wake each
  /// other.
  asio::awaitable<void> wait_until(Instant until) {
    asio::steady_timer timer(executor_, until);
    waiting_.push_back(&timer);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    std::erase(waiting_, &timer);
  }

 private:
  asio::any_io_executor executor_;
  std::vector<asio::steady_timer*> waiting_;
};

/// Owns the coroutines spawned through it: all_done() before it goes. A coroutine that throws ends the process: ours
/// never do.
class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

  void spawn(asio::awaitable<void> task) {
    ++state_->running;
    const std::shared_ptr<State> state = state_;
    asio::co_spawn(state->executor, std::move(task), [state](std::exception_ptr thrown) {
      if (thrown) {
        std::fputs("pi_client: a coroutine has thrown\n", stderr);
        std::abort();
      }
      --state->running;
      state->bell.ring();
    });
  }
  std::size_t running() const { return state_->running; }
  asio::awaitable<void> all_done() {
    const std::shared_ptr<State> state = state_;
    while (state->running > 0) co_await state->bell.wait_until(after(Clock::now(), std::chrono::hours(1)));
  }

 private:
  struct State {
    explicit State(asio::any_io_executor on) : executor(on), bell(std::move(on)) {}
    asio::any_io_executor executor;
    Bell bell;
    std::size_t running = 0;
  };
  std::shared_ptr<State> state_;
};

namespace detail {
template <class Work>
asio::awaitable<void> store_result(Work work, std::optional<std::invoke_result_t<Work>>* into) {
  into->emplace(work());
  co_return;
}
}  // namespace detail

/// Runs `work` (which must not throw) on `pool` and resumes here with what it returns: for what blocks or computes for
/// long.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> on_pool(asio::thread_pool& pool, Work work) {
  std::optional<std::invoke_result_t<Work>> result;
  asio::awaitable<void> there = detail::store_result(std::move(work), &result);
  co_await asio::co_spawn(pool.get_executor(), std::move(there), asio::use_awaitable);
  co_return std::move(*result);
}

}  // namespace gearbox::client
