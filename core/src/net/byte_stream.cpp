#include "net/byte_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gearbox::net {

namespace {

/// A sender of any window gets there; larger ones would leave the socket idle while we work on what came.
constexpr std::size_t kMostLowWater = 64 * 1024;

Error closed_here() {
  return Error{Errc::closed, "closed on this side"};
}

Error io(const char* what) {
  return Error{Errc::io_error, std::string(what) + ": " + std::strerror(errno)};
}

}  // namespace

ByteStream::ByteStream(const asio::any_io_executor& executor)
    : socket_(executor), reading_(executor), writing_(executor) {}

Outcome<std::shared_ptr<ByteStream>> ByteStream::adopt(const asio::any_io_executor& executor, int descriptor) {
  const auto fail = [descriptor](Error error) {
    ::close(descriptor);
    return error;
  };
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  int type = 0;
  socklen_t type_length = sizeof type;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_length) != 0) {
    return fail(io("adopt"));
  }
  if (type != SOCK_STREAM) return fail(Error{Errc::io_error, "adopt: not a stream socket"});
  const int family = address.ss_family;
  if (family == AF_INET || family == AF_INET6) {
    const int on = 1;
    if (::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) return fail(io("TCP_NODELAY"));
  }
  auto stream = std::make_shared<ByteStream>(executor);
  boost::system::error_code error;
  const asio::generic::stream_protocol protocol(family, 0);
  stream->socket_.assign(protocol, descriptor, error);
  if (error) return fail(Error{Errc::io_error, "adopt: " + error.message()});
  stream->socket_.native_non_blocking(true, error);
  if (error) return Error{Errc::io_error, "adopt: " + error.message()};  // the socket closes the descriptor
  return stream;
}

Outcome<std::size_t> ByteStream::read_some(ByteSpan out) {
  if (!open_) return closed_here();
  if (drained_) return std::size_t{0};
  for (;;) {
    const ssize_t got = ::recv(socket_.native_handle(), out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) {
      drained_ = static_cast<std::size_t>(got) < out.size();
      bytes_read_ += static_cast<std::uint64_t>(got);
      return static_cast<std::size_t>(got);
    }
    if (got == 0) return Error{Errc::closed, "the peer closed the connection"};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      drained_ = true;
      return std::size_t{0};
    }
    return io("read");
  }
}

Outcome<std::size_t> ByteStream::write_some(std::span<const iovec> parts, bool more) {
  if (!open_) return closed_here();
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg() does not write there
  message.msg_iovlen = parts.size();
  for (;;) {
    const ssize_t sent =
        ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (sent >= 0) {
      bytes_written_ += static_cast<std::uint64_t>(sent);
      return static_cast<std::size_t>(sent);
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno == EPIPE) return Error{Errc::closed, "the peer closed the connection"};
    return io("write");
  }
}

asio::awaitable<Outcome<void>> ByteStream::wait(Side& side, asio::socket_base::wait_type type, Instant deadline) {
  if (!open_) co_return closed_here();
  if (!side.standing) {
    side.standing = true;
    auto woken = [weak = weak_from_this(), &side](const boost::system::error_code&) {
      // An error shows at the next read or write. `side` lives in the stream, which is looked for first.
      if (const std::shared_ptr<ByteStream> stream = weak.lock()) {
        side.standing = false;
        if (&side == &stream->reading_) stream->drained_ = false;
        side.wakeup.notify();
      }
    };
    socket_.async_wait(type, std::move(woken));
  }
  const bool ready = co_await side.wakeup.wait_until(deadline);
  if (!open_) co_return closed_here();
  if (!ready) co_return Error{Errc::timeout, "the peer was silent for too long"};
  co_return done();
}

void ByteStream::set_low_water(std::size_t bytes) {
  const int wanted = static_cast<int>(std::clamp<std::size_t>(bytes, 1, kMostLowWater));
  if (wanted == low_water_ || !open_) return;
  // Only a hint: where it cannot be set, we wake more often.
  if (::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0) low_water_ = wanted;
}

asio::awaitable<Outcome<void>> ByteStream::wait_readable(Instant deadline, std::size_t at_least) {
  set_low_water(at_least);
  return wait(reading_, asio::socket_base::wait_read, deadline);
}

asio::awaitable<Outcome<void>> ByteStream::wait_writable(Instant deadline) {
  return wait(writing_, asio::socket_base::wait_write, deadline);
}

void ByteStream::close() {
  if (!open_) return;
  open_ = false;
  boost::system::error_code ignored;  // nothing is left to be done about a descriptor that will not close
  socket_.close(ignored);
  reading_.wakeup.notify();
  writing_.wakeup.notify();
}

}  // namespace gearbox::net
