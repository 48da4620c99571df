// socket_options.hpp: how every connection of this transport is set up.
#pragma once

#include <cstdint>

#include "gearbox/base/outcome.hpp"

namespace gearbox::transport_tcp {

struct Settings {
  std::uint32_t keepalive_idle_s = 15;  // silence before the first probe
  std::uint32_t keepalive_every_s = 5;
  std::uint32_t keepalive_probes = 3;
  std::uint32_t user_timeout_ms = 30000;  // sent data unacknowledged for so long ends the connection
  std::uint32_t backlog = 4096;           // the kernel cuts it to net.core.somaxconn
};

/// Keep-alive, TCP_NODELAY and TCP_USER_TIMEOUT: a peer that vanishes without a word is noticed in a bound, idle or
/// not. Errors: io_error (closed: the peer has gone already).
Outcome<void> set_up_connection(int descriptor, const Settings& settings);

/// The Errc of a failed socket call: no_space when descriptors or buffers are used up, else io_error; with the reason.
Error socket_error(int number);

/// A descriptor that is closed unless it is released.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }
  int release() {
    const int out = descriptor_;
    descriptor_ = -1;
    return out;
  }

 private:
  int descriptor_;
};

/// A stream socket of `family`, non-blocking and close-on-exec. Errors: no_space; io_error.
Outcome<Socket> open_socket(int family);

}  // namespace gearbox::transport_tcp
