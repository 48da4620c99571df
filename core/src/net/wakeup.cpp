#include "gearbox/net/wakeup.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gearbox::net {

namespace {
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
}

void Wakeup::notify() {
  notified_ = true;
  timer_.cancel();
}

asio::awaitable<bool> Wakeup::wait_until(Instant deadline) {
  if (!notified_) {
    timer_.expires_at(deadline);
    co_await timer_.async_wait(kAwait);  // cut short by notify(); either way the flag decides
  }
  const bool notified = notified_;
  notified_ = false;
  co_return notified;
}

asio::awaitable<void> pause_until(Instant deadline) {
  asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
  co_await timer.async_wait(kAwait);
}

}  // namespace gearbox::net
