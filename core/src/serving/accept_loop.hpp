// accept_loop.hpp: takes newcomers from one listening descriptor, in bounds, and survives running out of descriptors.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/transport.hpp"

namespace gearbox::serving {

namespace asio = boost::asio;

/// One strand for everything. While descriptors are used up it gives newcomers away with a spare one (they see a closed
/// connection at once instead of waiting in the kernel), pauses, and goes on by itself; who is connected is not
/// disturbed.
class AcceptLoop : public std::enable_shared_from_this<AcceptLoop> {
 public:
  /// plugin::Transport::accept or accept_unix.
  using Accept = std::function<Outcome<plugin::Connection>(int listening)>;
  struct Setup {
    asio::any_io_executor executor;
    int listening = -1;  // non-blocking; taken over, closed by stop()
    Accept accept;
    std::function<bool()> full;  // true: the connection limit is reached, newcomers are closed at once
    std::function<void(plugin::Connection)> accepted;  // takes the descriptor over
    milliseconds pause{100};                           // while descriptors are used up
  };
  /// Errors: io_error, no_space; the descriptor is closed then too.
  static Outcome<std::shared_ptr<AcceptLoop>> start(Setup setup);
  ~AcceptLoop();

  /// Closes the listening descriptor; nobody is accepted from here on. Idempotent.
  void stop();

  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // over the limit, or for want of descriptors
    std::uint64_t pauses = 0;
    std::uint64_t failed = 0;  // accept said something else; see the log
  };
  const Counters& counters() const;

 private:
  struct State;
  explicit AcceptLoop(std::unique_ptr<State> state);
  static asio::awaitable<void> run(std::shared_ptr<AcceptLoop> self);
  bool take_waiting();
  void refuse_with_spare();
  std::unique_ptr<State> state_;
};

/// Raises the limit on open descriptors as far as it goes. Returns what it is now.
std::uint64_t raise_descriptor_limit();

}  // namespace gearbox::serving
