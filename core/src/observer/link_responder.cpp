#include "observer/link_responder.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <list>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "observer/link_wire.hpp"

namespace gearbox::observer {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr milliseconds kSilent{150'000};  // more than twice the longest time between two probes
constexpr milliseconds kPause{200};       // when no connection can be taken

/// One peer's connection. Its timer closes it when nothing has come for too long.
struct Connection {
  explicit Connection(tcp::socket accepted) : socket(std::move(accepted)), timer(socket.get_executor()) {}
  tcp::socket socket;
  asio::steady_timer timer;
};

void expect_more(const std::shared_ptr<Connection>& connection) {
  connection->timer.expires_after(kSilent);
  const std::weak_ptr<Connection> weak = connection;
  connection->timer.async_wait([weak](const boost::system::error_code& cancelled) {
    const auto late = weak.lock();
    boost::system::error_code ignored;
    if (!cancelled && late) late->socket.close(ignored);
  });
}

asio::awaitable<void> answer(std::shared_ptr<Connection> connection) {
  std::vector<unsigned char> piece(kLinkPiece);
  LinkHead head{};
  boost::system::error_code error;
  for (;;) {
    expect_more(connection);
    co_await asio::async_read(connection->socket, asio::buffer(head), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    const std::optional<std::uint32_t> bytes = read_link_head(head);
    if (!bytes) break;  // another protocol
    co_await asio::async_read(connection->socket, asio::buffer(piece.data(), *bytes),
                              asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(connection->socket, asio::buffer(head),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
  }
  connection->timer.cancel();
  connection->socket.close(error);
}

}  // namespace

struct LinkResponder::State {
  explicit State(const asio::any_io_executor& executor) : acceptor(executor), pause(executor) {}
  static asio::awaitable<void> accept(std::shared_ptr<State> self);

  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::list<std::weak_ptr<Connection>> connections;
  bool over = false;
};

asio::awaitable<void> LinkResponder::State::accept(std::shared_ptr<State> self) {
  while (!self->over) {
    boost::system::error_code error;
    tcp::socket socket = co_await self->acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (self->over) break;
    if (error) {  // no descriptor is free, as a rule
      self->pause.expires_after(kPause);
      co_await self->pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    self->connections.remove_if([](const std::weak_ptr<Connection>& each) { return each.expired(); });
    if (self->connections.size() >= kMost) continue;  // its destructor closes it
    socket.set_option(tcp::no_delay(true), error);
    const auto connection = std::make_shared<Connection>(std::move(socket));
    self->connections.push_back(connection);
    asio::co_spawn(connection->socket.get_executor(), answer(connection), asio::detached);
  }
}

Outcome<std::unique_ptr<LinkResponder>> LinkResponder::listen(asio::any_io_executor executor,
                                                              const std::string& place) {
  const HostPort at = host_port(place);
  boost::system::error_code error;
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(at.host, at.port, tcp::resolver::passive, error);
  const auto state = std::make_shared<State>(executor);
  if (!error) state->acceptor.open(found.begin()->endpoint().protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(found.begin()->endpoint(), error);
  if (!error) state->acceptor.listen(static_cast<int>(kMost), error);
  if (error) return Error{Errc::unreachable, "cannot listen on " + place + ": " + error.message()};
  asio::co_spawn(executor, State::accept(state), asio::detached);
  return std::unique_ptr<LinkResponder>(new LinkResponder(state));
}

LinkResponder::~LinkResponder() {
  boost::system::error_code ignored;
  state_->over = true;
  state_->pause.cancel();
  state_->acceptor.close(ignored);
  for (const std::weak_ptr<Connection>& each : state_->connections) {
    if (const auto connection = each.lock()) connection->socket.close(ignored);
  }
}

std::uint16_t LinkResponder::port() const {
  boost::system::error_code closed;
  return state_->acceptor.local_endpoint(closed).port();
}

HostPort host_port(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  HostPort parts{place.substr(0, colon), place.substr(colon + 1)};
  if (parts.host.starts_with('[')) parts.host = parts.host.substr(1, parts.host.size() - 2);
  return parts;
}

}  // namespace gearbox::observer
