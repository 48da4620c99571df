#include "supervisor/control_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <utility>

#include "gearbox/base/clock.hpp"
#include "gearbox/wire/messages.hpp"
#include "supervisor/local_socket.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;

namespace {
constexpr milliseconds kIdle = std::chrono::hours(24);
constexpr milliseconds kWrite{5000};
}  // namespace

Outcome<std::unique_ptr<ControlServer>> ControlServer::listen(asio::io_context& io, const std::filesystem::path& socket,
                                                              Handler handler) {
  BOOST_OUTCOME_TRY(const int descriptor, listen_local(socket));
  std::unique_ptr<ControlServer> server(new ControlServer(io, socket, descriptor, std::move(handler)));
  server->await_one();
  return server;
}

ControlServer::ControlServer(asio::io_context& io, std::filesystem::path socket, int descriptor, Handler handler)
    : io_(io), path_(std::move(socket)), listening_(io, descriptor), handler_(std::make_shared<Handler>(std::move(handler))) {}

ControlServer::~ControlServer() { close(); }

void ControlServer::close() {
  if (!listening_.is_open()) return;
  boost::system::error_code ignored;  // nothing can be done about a close that fails
  listening_.close(ignored);
  *handler_ = nullptr;
  for (const std::weak_ptr<net::FrameStream>& weak : streams_) {
    if (const std::shared_ptr<net::FrameStream> stream = weak.lock()) stream->close();
  }
  streams_.clear();
  std::error_code gone;
  std::filesystem::remove(path_, gone);
}

void ControlServer::await_one() {
  listening_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    accept_waiting();
    await_one();
  });
}

void ControlServer::accept_waiting() {
  const int descriptor = ::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return;
  std::erase_if(streams_, [](const std::weak_ptr<net::FrameStream>& weak) { return weak.expired(); });
  const Outcome<PeerIdentity> peer = peer_of(descriptor);
  const bool ours = peer && (peer.value().uid == ::geteuid() || peer.value().uid == 0);
  if (!ours || streams_.size() >= kMaxConnections) {
    ::close(descriptor);
    return;
  }
  Outcome<std::shared_ptr<net::FrameStream>> stream =
      net::FrameStream::adopt(io_.get_executor(), descriptor, "pid " + std::to_string(peer.value().pid));
  if (!stream) return;
  streams_.insert(stream.value());
  asio::co_spawn(io_, serve(std::move(stream).value(), handler_), asio::detached);
}

asio::awaitable<void> ControlServer::serve(std::shared_ptr<net::FrameStream> stream, std::shared_ptr<Handler> handler) {
  for (;;) {
    Outcome<wire::Frame> frame = co_await net::FrameStream::read_frame(stream, kIdle);
    if (!frame || !*handler) break;
    if (frame.value().header.type != wire::FrameType::control) continue;  // of a later version
    Outcome<std::string> answer = (*handler)(frame.value().json);
    wire::FrameHeader header;
    header.type = answer ? wire::FrameType::control_answer : wire::FrameType::error;
    std::string text = answer ? std::move(answer).value() : wire::to_json(wire::to_message(answer.error()));
    Outcome<void> sent = co_await net::FrameStream::write_frame(stream, header, std::move(text), ByteView{}, kWrite);
    if (!sent) break;
  }
  stream->close();
}

}  // namespace gearbox::supervisor
