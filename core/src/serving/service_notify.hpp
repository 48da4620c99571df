// service_notify.hpp: tells the service manager that started this process how it is: sd_notify's datagrams to
// $NOTIFY_SOCKET, without libsystemd.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <map>
#include <memory>
#include <string>

#include "gearbox/base/clock.hpp"

namespace gearbox::serving {

struct NotifySettings {
  std::string socket;          // a path, or "@name" of an abstract socket; empty: nobody wants to hear
  milliseconds watchdog{0};    // so long without a word, and the manager ends this process; 0: never
  milliseconds starting{0};    // start() asks for more time again and again, for so long at most
  milliseconds start_step{0};  // how much more it asks for each time
};

/// NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are taken out of the environment: they are meant for this
/// process and none of its children. Before other threads begin.
NotifySettings notify_settings_of_environment();

/// One strand, whose liveliness is what the watchdog sees. Nothing blocks: what the manager does not take at once is
/// tried again; of each key the latest value counts.
class ServiceNotify {
 public:
  ServiceNotify(boost::asio::any_io_executor executor, NotifySettings settings);
  ~ServiceNotify();
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  /// From now on the watchdog is fed, and until ready() the time for the start is extended.
  void start();
  /// Once; later calls only change the status.
  void ready(const std::string& status);
  /// One line for `systemctl status`.
  void status(const std::string& line);
  /// The manager is to wait for so long from now. May be called again.
  void stopping(const std::string& status, milliseconds within);
  /// No timer is left after this.
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gearbox::serving
