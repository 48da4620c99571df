// stop_signals.hpp: SIGTERM and SIGINT as events of the role's loop; and what every role does about other signals.
#pragma once

#include <signal.h>

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>

namespace gearbox::serving {

/// The first signal calls `stop` (finish, within a bound), each further one `hurry` (now). Both run on the executor.
/// SIGPIPE is ignored from here on: a peer that is gone is an error of the write, never our end.
class StopSignals {
 public:
  StopSignals(boost::asio::any_io_executor executor, std::function<void()> stop, std::function<void()> hurry);
  ~StopSignals();  // signals have their former meaning again after that
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Lets SIGTERM and SIGINT wait while a role opens its ports and memory: StopSignals, made at the end of that, then
/// gets them at once, and nothing half-opened is left behind. Made and destroyed by the thread that opens.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;
  void release();  // once StopSignals is there

 private:
  sigset_t before_{};
  bool held_ = true;
};

}  // namespace gearbox::serving
