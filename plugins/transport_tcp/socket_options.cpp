#include "transport_tcp/socket_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace gearbox::transport_tcp {

Error socket_error(int number) {
  const std::string reason = std::generic_category().message(number);
  switch (number) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return Error{Errc::no_space, reason};
    case EADDRINUSE:
      return Error{Errc::io_error, "address in use"};
    case EACCES:
    case EPERM:
      return Error{Errc::io_error, "not permitted"};
    case ECONNABORTED:
    case ECONNRESET:
    case EINVAL:
    case ENOTCONN:
      return Error{Errc::closed, reason};
    default:
      return Error{Errc::io_error, reason};
  }
}

Outcome<void> set_up_connection(int descriptor, const Settings& settings) {
  const auto set = [&](int level, int name, std::uint32_t value) {
    const int number = static_cast<int>(value);
    return ::setsockopt(descriptor, level, name, &number, sizeof number) == 0;
  };
  const bool good = set(SOL_SOCKET, SO_KEEPALIVE, 1) && set(IPPROTO_TCP, TCP_KEEPIDLE, settings.keepalive_idle_s) &&
                    set(IPPROTO_TCP, TCP_KEEPINTVL, settings.keepalive_every_s) &&
                    set(IPPROTO_TCP, TCP_KEEPCNT, settings.keepalive_probes) && set(IPPROTO_TCP, TCP_NODELAY, 1) &&
                    set(IPPROTO_TCP, TCP_USER_TIMEOUT, settings.user_timeout_ms);
  if (!good) return socket_error(errno);
  return done();
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Outcome<Socket> open_socket(int family) {
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) return socket_error(errno);
  return Socket(descriptor);
}

}  // namespace gearbox::transport_tcp
