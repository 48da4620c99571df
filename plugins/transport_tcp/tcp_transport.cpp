#include "transport_tcp/tcp_transport.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gearbox::transport_tcp {

namespace ip = boost::asio::ip;

namespace {

constexpr milliseconds kListenLookup{5000};
constexpr milliseconds kLeastShare{250};  // of connect's time for one of several addresses

/// IPv4 addresses that arrive on an IPv6 socket are shown and counted as what they are.
ip::address plain(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

std::string text_of(const Endpoint& endpoint) {
  const ip::address address = plain(endpoint.address());
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return host + ":" + std::to_string(endpoint.port());
}

/// An IPv6 customer owns a /64 at least: counting single addresses would count nothing.
std::string group_of(const Endpoint& endpoint) {
  const ip::address address = plain(endpoint.address());
  if (address.is_v4()) return address.to_string();
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return ip::address_v6(bytes).to_string() + "/64";
}

template <class Call>
Outcome<Endpoint> endpoint_by(Call call, int descriptor) {
  Endpoint endpoint;
  auto length = static_cast<socklen_t>(endpoint.capacity());
  if (call(descriptor, endpoint.data(), &length) != 0) return socket_error(errno);
  endpoint.resize(length);
  return endpoint;
}

Outcome<plugin::Connection> connection_from(Socket socket, const Endpoint& peer, const Settings& settings) {
  BOOST_OUTCOME_TRY(set_up_connection(socket.get(), settings));
  plugin::Connection connection;
  connection.peer = text_of(peer);
  connection.peer_group = group_of(peer);
  connection.descriptor = socket.release();
  return connection;
}

Outcome<Socket> bound(const Endpoint& endpoint, std::uint32_t backlog) {
  BOOST_OUTCOME_TRY(Socket socket, open_socket(endpoint.protocol().family()));
  const int on = 1;
  const int off = 0;
  // A restart at once after a kill gets its port back, although old connections linger.
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return socket_error(errno);
  if (endpoint.protocol() == ip::tcp::v6() &&
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
    return socket_error(errno);
  }
  if (::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) return socket_error(errno);
  if (::listen(socket.get(), static_cast<int>(backlog)) != 0) return socket_error(errno);
  return socket;
}

/// Waits until the connect under way has ended. Errors: timeout, unreachable.
Outcome<void> wait_connected(int descriptor, Instant until) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left.count() <= 0) return Error{Errc::timeout, "no answer"};
    pollfd waiting{descriptor, POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000)));
    if (ready < 0 && errno != EINTR) return socket_error(errno);
    if (ready > 0) break;
  }
  int failed = 0;
  socklen_t length = sizeof failed;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) return socket_error(errno);
  if (failed != 0) return Error{Errc::unreachable, std::generic_category().message(failed)};
  return done();
}

Outcome<plugin::Connection> try_one(const Endpoint& endpoint, Instant until, const Settings& settings) {
  BOOST_OUTCOME_TRY(Socket socket, open_socket(endpoint.protocol().family()));
  int connected = 0;
  do {
    connected = ::connect(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size()));
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) {
    if (errno != EINPROGRESS) return Error{Errc::unreachable, std::generic_category().message(errno)};
    BOOST_OUTCOME_TRY(wait_connected(socket.get(), until));
  }
  // A connect to a free port of this host may meet itself: the kernel chose the very port as the near end.
  BOOST_OUTCOME_TRY(const Endpoint near_end, endpoint_by(::getsockname, socket.get()));
  if (near_end == endpoint) return Error{Errc::unreachable, "nobody listens"};
  return connection_from(std::move(socket), endpoint, settings);
}

}  // namespace

Outcome<plugin::Listening> TcpTransport::listen(std::string_view url) {
  BOOST_OUTCOME_TRY(TcpUrl parsed, parse_url(url));
  BOOST_OUTCOME_TRY(const std::vector<Endpoint> endpoints,
                    resolver_.resolve(parsed, after(Clock::now(), kListenLookup)));
  Error last;
  for (const Endpoint& endpoint : endpoints) {
    Outcome<Socket> socket = bound(endpoint, settings_.backlog);
    if (!socket) {
      last = Error{socket.error().code == Errc::no_space ? Errc::no_space : Errc::io_error,
                   text_of(endpoint) + ": " + socket.error().detail};
      continue;
    }
    BOOST_OUTCOME_TRY(const Endpoint real, endpoint_by(::getsockname, socket.value().get()));
    parsed.port = real.port();
    return plugin::Listening{socket.value().release(), to_text(parsed)};
  }
  return last;
}

Outcome<plugin::Connection> TcpTransport::accept(int listening) {
  Endpoint peer;
  int accepted = -1;
  do {
    auto length = static_cast<socklen_t>(peer.capacity());
    accepted = ::accept4(listening, peer.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) peer.resize(length);
  } while (accepted < 0 && errno == EINTR);
  if (accepted >= 0) return connection_from(Socket(accepted), peer, settings_);
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Errc::short_frame, "nobody waits"};
  if (errno == EBADF || errno == ENOTSOCK || errno == EINVAL) return Error{Errc::io_error, "no listening descriptor"};
  const Error failed = socket_error(errno);
  // Linux hands errors of the new connection itself to accept: the listening socket is still good.
  return Error{failed.code == Errc::no_space ? Errc::no_space : Errc::closed, failed.detail};
}

Outcome<plugin::Connection> TcpTransport::connect(std::string_view url, Instant deadline) {
  BOOST_OUTCOME_TRY(const TcpUrl parsed, parse_url(url));
  if (parsed.port == 0) return Error{Errc::bad_input, "'" + to_text(parsed) + "': nobody can be dialled at port 0"};
  BOOST_OUTCOME_TRY(const std::vector<Endpoint> endpoints, resolver_.resolve(parsed, deadline));
  std::string reasons;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const Instant now = Clock::now();
    // A dead first address must leave time for the next one.
    const auto share =
        std::max<Clock::duration>((deadline - now) / static_cast<std::int64_t>(endpoints.size() - i), kLeastShare);
    Outcome<plugin::Connection> connection = try_one(endpoints[i], std::min(deadline, now + share), settings_);
    if (connection || connection.error().code == Errc::no_space) return connection;
    reasons += (reasons.empty() ? "" : "; ") + text_of(endpoints[i]) + ": " + connection.error().detail;
  }
  return Error{Clock::now() >= deadline ? Errc::timeout : Errc::unreachable, std::move(reasons)};
}

}  // namespace gearbox::transport_tcp
