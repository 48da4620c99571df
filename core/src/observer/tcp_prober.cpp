#include "observer/tcp_prober.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>

#include "observer/link_responder.hpp"
#include "observer/link_wire.hpp"

namespace gearbox::observer {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kPings = 3;
constexpr int kSendBuffer = 64 * 1024;  // what the kernel may hold of a burst that is given up

double seconds_of(Clock::duration span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

struct TcpProber::Peer {
  explicit Peer(const asio::any_io_executor& executor) : resolver(executor), socket(executor), timer(executor) {}

  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
  bool connected = false;
  bool late = false;
  Instant next_ping{}, next_burst{};

  void close() {
    boost::system::error_code ignored;
    resolver.cancel();
    socket.close(ignored);
    connected = false;
  }
  static asio::awaitable<void> connect(std::shared_ptr<Peer> self, std::string place, boost::system::error_code* error);
  static asio::awaitable<void> ping(std::shared_ptr<Peer> self, LinkMeasure* measure, boost::system::error_code* error);
  static asio::awaitable<void> burst(std::shared_ptr<Peer> self, std::uint64_t bytes, milliseconds longest,
                                     LinkMeasure* measure, boost::system::error_code* error);
};

asio::awaitable<void> TcpProber::Peer::connect(std::shared_ptr<Peer> self, std::string place,
                                               boost::system::error_code* error) {
  const HostPort at = host_port(place);
  const auto found =
      co_await self->resolver.async_resolve(at.host, at.port, asio::redirect_error(asio::use_awaitable, *error));
  // A question to a name server that was called off may still end well: nobody would end what came after it.
  if (!*error && self->late) *error = asio::error::timed_out;
  if (*error) co_return;
  co_await asio::async_connect(self->socket, found, asio::redirect_error(asio::use_awaitable, *error));
  if (!*error && self->late) {
    *error = asio::error::timed_out;
    self->close();
  }
  if (*error) co_return;
  boost::system::error_code ignored;  // worse figures, nothing else
  self->socket.set_option(tcp::no_delay(true), ignored);
  self->socket.set_option(tcp::socket::send_buffer_size(kSendBuffer), ignored);
  self->connected = true;
}

/// The shortest of a few: what else goes over the link makes single ones longer.
asio::awaitable<void> TcpProber::Peer::ping(std::shared_ptr<Peer> self, LinkMeasure* measure,
                                            boost::system::error_code* error) {
  const LinkHead head = link_head(0);
  Clock::duration shortest = Clock::duration::max();
  for (int i = 0; i < kPings; ++i) {
    const Instant began = Clock::now();
    co_await asio::async_write(self->socket, asio::buffer(head), asio::redirect_error(asio::use_awaitable, *error));
    if (*error) co_return;
    LinkHead back{};
    co_await asio::async_read(self->socket, asio::buffer(back), asio::redirect_error(asio::use_awaitable, *error));
    if (*error) co_return;
    if (back != head) {
      *error = asio::error::fault;  // another protocol
      co_return;
    }
    shortest = std::min(shortest, Clock::now() - began);
  }
  measure->latency = std::chrono::duration_cast<microseconds>(shortest);
}

/// Piece by piece, so that it can stop in the middle of a slow link; what counts is what was confirmed.
asio::awaitable<void> TcpProber::Peer::burst(std::shared_ptr<Peer> self, std::uint64_t bytes, milliseconds longest,
                                             LinkMeasure* measure, boost::system::error_code* error) {
  const LinkHead head = link_head(kLinkPiece);
  const std::vector<unsigned char> filler(kLinkPiece);
  const std::array<asio::const_buffer, 2> piece = {asio::buffer(head), asio::buffer(filler)};
  const Instant began = Clock::now();
  std::uint64_t sent = 0;
  while (sent + kLinkPiece <= bytes && (sent == 0 || Clock::now() < after(began, longest))) {
    co_await asio::async_write(self->socket, piece, asio::redirect_error(asio::use_awaitable, *error));
    if (*error) break;
    sent += kLinkPiece;
  }
  std::uint64_t confirmed = 0;
  Instant last = began;
  while (!*error && confirmed < sent) {
    LinkHead back{};
    co_await asio::async_read(self->socket, asio::buffer(back), asio::redirect_error(asio::use_awaitable, *error));
    if (*error) break;
    confirmed += kLinkPiece;
    last = Clock::now();
  }
  if (confirmed == 0) co_return;
  if (*error) last = Clock::now();  // what was confirmed took until now: the rest never came
  // Never more than half is taken for the way there and back: pings that were held up must not invent bandwidth.
  const double raw = std::max(seconds_of(last - began), 1e-6);
  const double took = std::max(raw - static_cast<double>(measure->latency.count()) / 1e6, raw / 2);
  measure->bytes_per_s = static_cast<double>(confirmed) / took;
}

TcpProber::TcpProber(asio::any_io_executor executor, const config::LinksConfig& links, const Limits& limits)
    : executor_(std::move(executor)), links_(links), limits_(limits) {
  for (const std::string& peer : links_.peers) peers_.emplace(peer, std::make_shared<Peer>(executor_));
}

TcpProber::~TcpProber() {
  for (const auto& [place, peer] : peers_) {
    peer->timer.cancel();
    peer->close();
  }
}

bool TcpProber::is_due(const std::string& peer, Instant now) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && now >= found->second->next_ping;
}

asio::awaitable<LinkMeasure> TcpProber::probe(std::string place) {
  LinkMeasure measure;
  const auto found = peers_.find(place);
  if (found == peers_.end()) co_return measure;
  const std::shared_ptr<Peer> peer = found->second;
  const config::LinksConfig links = links_;
  const Limits limits = limits_;
  const Instant now = Clock::now();
  peer->next_ping = after(now, links.ping);
  peer->late = false;
  peer->timer.expires_after(limits.probe);
  const auto end = [peer](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    peer->late = true;
    peer->close();
  };
  peer->timer.async_wait(end);
  boost::system::error_code error;
  const bool kept = peer->connected;
  if (!kept) co_await Peer::connect(peer, place, &error);
  if (!error) co_await Peer::ping(peer, &measure, &error);
  if (error && kept && !peer->late) {
    // A connection that was kept ends with the observer over there, which may be back already: that is no bad link.
    peer->close();
    error.clear();
    co_await Peer::connect(peer, place, &error);
    if (!error) co_await Peer::ping(peer, &measure, &error);
  }
  if (!error && now >= peer->next_burst) {
    peer->next_burst = after(now, links.burst_every);
    co_await Peer::burst(peer, links.burst_bytes, limits.burst, &measure, &error);
  }
  peer->timer.cancel();
  if (error) peer->close();
  measure.failed = error && measure.bytes_per_s <= 0;
  // A link that is back is measured at once: its old figure may be no good any more.
  if (measure.failed) peer->next_burst = Instant();
  co_return measure;
}

}  // namespace gearbox::observer
