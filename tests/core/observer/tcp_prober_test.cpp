// Two ends of one probe over the loopback, and peers that are not observers.
#include "observer/tcp_prober.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <optional>

#include "observer/link_responder.hpp"
#include "observer/link_wire.hpp"

namespace gearbox::observer {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class TcpProberTest : public ::testing::Test {
 protected:
  std::string listen() {
    auto listening = LinkResponder::listen(io_.get_executor(), "127.0.0.1:0");
    EXPECT_TRUE(listening) << listening.error().detail;
    responder_ = std::move(listening).value();
    return "127.0.0.1:" + std::to_string(responder_->port());
  }
  std::string silent() {
    acceptor_.emplace(io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
    return "127.0.0.1:" + std::to_string(acceptor_->local_endpoint().port());
  }
  void look_at(const std::string& peer, const TcpProber::Limits& limits = {}) {
    links_.peers = {peer};
    prober_ = std::make_shared<TcpProber>(io_.get_executor(), links_, limits);
  }
  static asio::awaitable<void> run(std::shared_ptr<TcpProber> prober, std::string peer,
                                   std::optional<LinkMeasure>* into) {
    *into = co_await prober->probe(peer);
  }
  LinkMeasure probe() {
    std::optional<LinkMeasure> measure;
    asio::co_spawn(io_, run(prober_, links_.peers[0], &measure), asio::detached);
    const Instant deadline = after(Clock::now(), seconds(20));
    while (!measure && Clock::now() < deadline) io_.run_one_for(std::chrono::seconds(1));
    EXPECT_TRUE(measure);
    return measure.value_or(LinkMeasure{true, {}, 0});
  }

  asio::io_context io_{1};
  config::LinksConfig links_;
  std::unique_ptr<LinkResponder> responder_;
  std::optional<tcp::acceptor> acceptor_;
  std::shared_ptr<TcpProber> prober_;
};

TEST_F(TcpProberTest, TheFirstProbeMeasuresAllAndTheNextOneTheLatency) {
  look_at(listen());
  const LinkMeasure first = probe();
  EXPECT_FALSE(first.failed);
  EXPECT_GT(first.latency.count(), 0);
  EXPECT_GT(first.bytes_per_s, 1e6);
  const LinkMeasure second = probe();
  EXPECT_FALSE(second.failed);
  EXPECT_EQ(second.bytes_per_s, 0) << "not before burst_every is over";
}

TEST_F(TcpProberTest, ItIsDueAfterItsTime) {
  look_at(listen());
  const std::string peer = links_.peers[0];
  EXPECT_TRUE(prober_->is_due(peer, Clock::now()));
  probe();
  EXPECT_FALSE(prober_->is_due(peer, Clock::now()));
  EXPECT_TRUE(prober_->is_due(peer, after(Clock::now(), links_.ping)));
  EXPECT_FALSE(prober_->is_due("another:1", Clock::now()));
}

TEST_F(TcpProberTest, APeerThatIsNotThereHasFailedAndIsMeasuredAtOnceWhenItIsBack) {
  const std::string place = listen();
  look_at(place);
  EXPECT_GT(probe().bytes_per_s, 0);
  responder_.reset();
  EXPECT_TRUE(probe().failed);
  auto again = LinkResponder::listen(io_.get_executor(), place);
  ASSERT_TRUE(again) << again.error().detail;
  responder_ = std::move(again).value();
  const LinkMeasure back = probe();
  EXPECT_FALSE(back.failed);
  EXPECT_GT(back.bytes_per_s, 0);
}

TEST_F(TcpProberTest, AnObserverThatWasStartedAnewIsNoBadLink) {
  const std::string place = listen();
  look_at(place);
  EXPECT_FALSE(probe().failed);
  responder_.reset();
  auto again = LinkResponder::listen(io_.get_executor(), place);
  ASSERT_TRUE(again) << again.error().detail;
  responder_ = std::move(again).value();
  EXPECT_FALSE(probe().failed);
}

TEST_F(TcpProberTest, ASilentPeerHasFailedInTime) {
  look_at(silent(), {milliseconds(200), milliseconds(100)});
  const Instant began = Clock::now();
  EXPECT_TRUE(probe().failed);
  EXPECT_GE(Clock::now() - began, milliseconds(200));
}

/// Answers so many pieces, and then no more: as a link that stands still in the middle.
asio::awaitable<void> stop_after(tcp::acceptor* acceptor, int pieces) {
  tcp::socket socket = co_await acceptor->async_accept(asio::use_awaitable);
  std::vector<unsigned char> filler(kLinkPiece);
  for (int i = 0; i < pieces; ++i) {
    LinkHead head{};
    co_await asio::async_read(socket, asio::buffer(head), asio::use_awaitable);
    co_await asio::async_read(socket, asio::buffer(filler.data(), read_link_head(head).value_or(0)),
                              asio::use_awaitable);
    co_await asio::async_write(socket, asio::buffer(head), asio::use_awaitable);
  }
  boost::system::error_code closed;
  std::size_t got = 1;
  while (!closed && got > 0)
    got = co_await asio::async_read(socket, asio::buffer(filler), asio::redirect_error(asio::use_awaitable, closed));
}

TEST_F(TcpProberTest, OfABurstThatDoesNotEndWhatWasConfirmedCounts) {
  look_at(silent(), {milliseconds(400), milliseconds(100)});
  asio::co_spawn(io_, stop_after(&*acceptor_, 3 + 2), asio::detached);  // small messages, then pieces
  const LinkMeasure measure = probe();
  EXPECT_FALSE(measure.failed);
  EXPECT_GT(measure.bytes_per_s, 0);
  EXPECT_LE(measure.bytes_per_s, 2 * kLinkPiece / 0.3);
}

TEST_F(TcpProberTest, TheResponderTakesNothingElse) {
  const std::string place = listen();
  tcp::socket stranger(io_);
  stranger.connect({asio::ip::make_address("127.0.0.1"), responder_->port()});
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  asio::write(stranger, asio::buffer(text));
  char answer = 0;
  boost::system::error_code closed;
  bool over = false;
  stranger.async_read_some(asio::buffer(&answer, 1), [&](const boost::system::error_code& error, std::size_t) {
    closed = error;
    over = true;
  });
  const Instant deadline = after(Clock::now(), seconds(20));
  while (!over && Clock::now() < deadline) io_.run_one_for(std::chrono::seconds(1));
  EXPECT_TRUE(closed);
  LinkHead huge = link_head(kLinkPiece);
  huge[7] = 1;
  EXPECT_FALSE(read_link_head(huge)) << "more than a piece";
  EXPECT_EQ(read_link_head(link_head(77)), 77U);
}

TEST_F(TcpProberTest, APlaceIsTakenApart) {
  EXPECT_EQ(host_port("[::1]:7").host, "::1");
  EXPECT_EQ(host_port("[::1]:7").port, "7");
  EXPECT_EQ(host_port("gpu-2:7611").host, "gpu-2");
  EXPECT_FALSE(LinkResponder::listen(io_.get_executor(), "192.0.2.1:7"));
}

}  // namespace
}  // namespace gearbox::observer
