#include "serving/stop_signals.hpp"

#include <boost/asio/signal_set.hpp>

#include <csignal>
#include <utility>

namespace gearbox::serving {

struct StopSignals::State : std::enable_shared_from_this<State> {
  State(boost::asio::any_io_executor executor, std::function<void()> first, std::function<void()> further)
      : signals(executor, SIGTERM, SIGINT), stop(std::move(first)), hurry(std::move(further)) {}

  void wait() {
    signals.async_wait([self = shared_from_this()](boost::system::error_code cancelled, int) {
      if (cancelled) return;
      const bool first = !std::exchange(self->seen, true);
      self->wait();
      (first ? self->stop : self->hurry)();
    });
  }

  boost::asio::signal_set signals;
  std::function<void()> stop, hurry;
  bool seen = false;
};

StopSignals::StopSignals(boost::asio::any_io_executor executor, std::function<void()> stop, std::function<void()> hurry)
    : state_(std::make_shared<State>(std::move(executor), std::move(stop), std::move(hurry))) {
  std::signal(SIGPIPE, SIG_IGN);
  state_->wait();
}

StopSignals::~StopSignals() {
  boost::system::error_code ignored;  // nothing is waiting any more either way
  state_->signals.cancel(ignored);
  state_->signals.clear(ignored);
}

HoldSignals::HoldSignals() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  held_ = ::pthread_sigmask(SIG_BLOCK, &stops, &before_) == 0;
}

HoldSignals::~HoldSignals() {
  release();
}

void HoldSignals::release() {
  if (std::exchange(held_, false)) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace gearbox::serving
