// The end of the whole pool.
#include <algorithm>

#include <boost/asio/post.hpp>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;

namespace {
constexpr milliseconds kStopSlack{1000};  // beyond the grace that workers have to end by themselves
}

void Pool::stop(std::function<void()> stopped) {
  stopped_ = std::move(stopped);
  if (stopping_) return check_stopped();
  stopping_ = true;
  listener_.reset();
  ticker_.cancel();
  window_.cancel();
  window_open_ = false;
  end_earlier();
  for (const auto& worker : workers_) {
    worker->restart.cancel();
    worker->awaiting = false;
    end_calls(*worker, Error{Errc::worker_lost, "the node is stopping"}, 0);
    say_goodbye(*worker, "the node is stopping");
    if (worker->alive) setup_.launcher->stop(worker->pid, setup_.timing.stop_grace);
  }
  setup_.launcher->cancel_all();
  stop_limit_.expires_after(setup_.timing.stop_grace + kStopSlack);
  stop_limit_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool) pool->stop_late();
  });
  asio::post(io_, [self = weak_from_this()] {
    const auto pool = self.lock();
    if (pool) pool->check_stopped();
  });
}

/// The grace is over: what still runs is killed, and no launch is waited for any longer.
void Pool::stop_late() {
  for (const auto& worker : workers_) {
    worker->launching = false;
    if (worker->alive) kill(*worker, "it did not stop in time", Errc::worker_lost);
  }
  check_stopped();
  if (!stopped_) return;
  // A process that the kernel does not let go of does not hold the node either.
  stop_limit_.expires_after(kStopSlack);
  stop_limit_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool && pool->stopped_) std::exchange(pool->stopped_, nullptr)();
  });
}

void Pool::check_stopped() {
  const bool any = std::any_of(workers_.begin(), workers_.end(),
                               [](const auto& worker) { return worker->alive || worker->launching; });
  if (any || !stopped_) return;
  stop_limit_.cancel();
  const auto stopped = std::exchange(stopped_, nullptr);
  stopped();
}

void Pool::close() {
  stopping_ = true;
  changed_ = nullptr;
  listener_.reset();
  ticker_.cancel();
  stop_limit_.cancel();
  window_.cancel();
  earlier_.clear();
  for (const auto& worker : workers_) {
    worker->restart.cancel();
    error_code ignored;  // nothing is left to do about a descriptor that does not close
    worker->process.close(ignored);
    if (worker->attachment) {
      worker->attachment->socket.close(ignored);
      worker->attachment->bell.close(ignored);
      worker->attachment.reset();
    }
  }
  work_.reset();
}

}  // namespace gearbox::worker_pool
