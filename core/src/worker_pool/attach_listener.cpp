#include "worker_pool/attach_listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cerrno>
#include <cstring>

#include "gearbox/base/clock.hpp"

namespace gearbox::worker_pool {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
constexpr std::size_t kMostWaiting = 64;  // connections that have not said hello yet
constexpr milliseconds kHelloWithin{5000};
constexpr milliseconds kPause{100};  // when descriptors are used up

Error failed(const std::filesystem::path& path, std::string_view what) {
  return Error{Errc::io_error, path.string() + ": " + std::string(what) + ": " + std::strerror(errno)};
}
}  // namespace

struct AttachListener::State : std::enable_shared_from_this<AttachListener::State> {
  State(asio::io_context& context, std::filesystem::path where, Arrived callback)
      : io(context), path(std::move(where)), arrived(std::move(callback)), listener(context), pause(context) {}

  struct Waiting {
    explicit Waiting(asio::io_context& context) : socket(context), deadline(context) {}
    asio::posix::stream_descriptor socket;
    asio::steady_timer deadline;
    int pid = 0;
  };

  void wait_for_peer() {
    listener.async_wait(asio::posix::stream_descriptor::wait_read, [self = weak_from_this()](const error_code& error) {
      const auto state = self.lock();
      if (!error && state) state->take_peers();
    });
  }

  void take_peers() {
    for (;;) {
      const int fd = ::accept4(listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        welcome(shm::Fd(fd));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) return rest();
      return wait_for_peer();
    }
  }

  /// Without descriptors the pending connection would wake us over and over: pause, then look again.
  void rest() {
    pause.expires_after(kPause);
    pause.async_wait([self = weak_from_this()](const error_code& error) {
      const auto state = self.lock();
      if (!error && state) state->take_peers();
    });
  }

  void welcome(shm::Fd fd) {
    ucred peer{};
    socklen_t length = sizeof peer;
    const bool known = ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    if (!known || peer.uid != ::geteuid() || waiting >= kMostWaiting) return;  // closed by its owner
    auto peer_waits = std::make_shared<Waiting>(io);
    error_code error;
    peer_waits->socket.assign(fd.get(), error);
    if (error) return;  // the reactor has no room for it
    fd.release();
    peer_waits->pid = peer.pid;
    ++waiting;
    peer_waits->deadline.expires_after(kHelloWithin);
    peer_waits->deadline.async_wait([peer_waits](const error_code& cut_short) {
      error_code ignored;  // nothing is left to do about a socket that does not close
      if (!cut_short) peer_waits->socket.close(ignored);
    });
    peer_waits->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                  [self = weak_from_this(), peer_waits](const error_code& closed) {
                                    const auto state = self.lock();
                                    peer_waits->deadline.cancel();
                                    if (!state) return;
                                    --state->waiting;
                                    if (!closed) state->read_hello(*peer_waits);
                                  });
  }

  void read_hello(Waiting& peer) {
    shm::Fd socket(peer.socket.release());
    auto message = shm::receive_message(socket.get());
    if (!message) return;  // it spoke something else, or has gone: nobody to tell
    arrived(std::move(socket), peer.pid, std::move(message.value().body));
  }

  asio::io_context& io;
  std::filesystem::path path;
  Arrived arrived;
  asio::posix::stream_descriptor listener;
  asio::steady_timer pause;
  std::size_t waiting = 0;
};

AttachListener::AttachListener(std::shared_ptr<State> state) : state_(std::move(state)) {}

AttachListener::~AttachListener() {
  error_code ignored;  // nothing is left to do about a socket that does not close
  state_->listener.close(ignored);
  state_->pause.cancel();
  std::error_code gone;
  std::filesystem::remove(state_->path, gone);
}

Outcome<std::unique_ptr<AttachListener>> AttachListener::create(asio::io_context& io, const std::filesystem::path& path,
                                                                Arrived arrived) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path) {
    return Error{Errc::io_error, text + ": too long for a socket's path (107 bytes at most)"};
  }
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  shm::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed(path, "socket");
  if (::unlink(text.c_str()) != 0 && errno != ENOENT) return failed(path, "remove the old socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return failed(path, "bind");
  if (::chmod(text.c_str(), S_IRUSR | S_IWUSR) != 0) return failed(path, "chmod");
  if (::listen(fd.get(), 128) != 0) return failed(path, "listen");
  auto state = std::make_shared<State>(io, path, std::move(arrived));
  error_code error;
  state->listener.assign(fd.get(), error);
  if (error) return Error{Errc::io_error, text + ": " + error.message()};
  fd.release();
  state->wait_for_peer();
  return std::unique_ptr<AttachListener>(new AttachListener(std::move(state)));
}

}  // namespace gearbox::worker_pool
