#include "gearbox/net/dial_unix.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gearbox::net {

Outcome<int> dial_unix(const std::filesystem::path& path, milliseconds within) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.empty() || text.size() >= sizeof address.sun_path) {
    return Error{Errc::bad_input,
                 "a unix socket's path has 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes: " + text};
  }
  std::memcpy(address.sun_path, text.data(), text.size());

  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return Error{Errc::no_space, std::string("socket: ") + std::strerror(errno)};
  const auto fail = [&](Errc code, std::string_view why) {
    ::close(descriptor);
    return Error{code, text + ": " + std::string(why)};
  };
  // The only thing that a connect in the unix domain waits for is room in the listener's queue.
  const auto wait = std::max(within, milliseconds(1));
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(wait.count() / 1000);
  limit.tv_usec = static_cast<suseconds_t>(wait.count() % 1000 * 1000);
  if (::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
    return fail(Errc::unreachable, std::strerror(errno));
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  int result = ::connect(descriptor, generic, sizeof address);
  while (result != 0 && errno == EINTR) result = ::connect(descriptor, generic, sizeof address);
  if (result != 0) {
    if (errno == EAGAIN) return fail(Errc::timeout, "its queue of waiting connections stayed full");
    return fail(Errc::unreachable, std::strerror(errno));
  }
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail(Errc::unreachable, std::strerror(errno));
  }
  return descriptor;
}

}  // namespace gearbox::net
