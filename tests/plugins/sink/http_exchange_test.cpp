// Receivers that answer before they have read what they are sent, or more than once.
#include "sink/http_exchange.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "conformance/sink_conformance.hpp"
#include "sink/http_sink.hpp"

namespace gearbox::sink {
namespace {

using plugin::Fate;
using ::testing::HasSubstr;

/// Takes one connection, reads `reads` bytes of it at most, answers, and closes: with a reset when something was not
/// read.
class Hasty {
 public:
  enum class Then { closes, stays };
  Hasty(std::string answer, std::size_t reads, Then then) : answer_(std::move(answer)), reads_(reads), then_(then) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 8), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Hasty() {
    over_.set_value();
    ::shutdown(listening_, SHUT_RDWR);
    thread_.join();
    ::close(listening_);
  }
  Hasty(const Hasty&) = delete;
  Hasty& operator=(const Hasty&) = delete;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/in"; }

 private:
  void serve() {
    const int connection = ::accept(listening_, nullptr, nullptr);
    if (connection < 0) return;
    std::string piece(64 * 1024, '\0');
    for (std::size_t left = reads_; left > 0;) {
      const ssize_t got = ::recv(connection, piece.data(), std::min(left, piece.size()), 0);
      if (got <= 0) break;
      left -= static_cast<std::size_t>(got);
    }
    ::send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    if (then_ == Then::stays) over_.get_future().wait();
    ::close(connection);
  }

  std::string answer_;
  std::size_t reads_;
  Then then_;
  std::promise<void> over_;
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// One event of `bytes`: more than sockets hold when it is large.
plugin::Verdict deliver(const std::string& url, std::size_t bytes, milliseconds within = milliseconds{10'000}) {
  HttpSink sink(http_url(url).value(), "");
  EXPECT_TRUE(sink.open({"one", "node-1", "/"}));
  const std::string json = "\"" + std::string(bytes, 'x') + "\"";
  plugin::EventView view;
  view.json = json;
  return sink.deliver(std::span(&view, 1), after(Clock::now(), within));
}

constexpr std::size_t kLarge = 32 << 20;
const std::string kTooLarge = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";

TEST(HttpExchange, WhatWasAnsweredBeforeTheConnectionBrokeCounts) {
  const Hasty receiver(kTooLarge, 100, Hasty::Then::closes);
  const plugin::Verdict verdict = deliver(receiver.url(), kLarge);
  EXPECT_EQ(verdict.fate, Fate::never);
  EXPECT_EQ(verdict.reason, "HTTP 413");
}

TEST(HttpExchange, AnAnswerEndsTheSendingOfWhatNobodyReads) {
  const Hasty receiver(kTooLarge, 100, Hasty::Then::stays);
  const plugin::Verdict verdict = deliver(receiver.url(), kLarge);
  EXPECT_EQ(verdict.fate, Fate::never);
  EXPECT_EQ(verdict.reason, "HTTP 413");
}

TEST(HttpExchange, ASuccessWithoutHavingReadAllIsNone) {
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  for (const Hasty::Then then : {Hasty::Then::closes, Hasty::Then::stays}) {
    const Hasty receiver(ok, 100, then);
    const plugin::Verdict verdict = deliver(receiver.url(), kLarge, milliseconds{500});
    EXPECT_EQ(verdict.fate, Fate::later);
    EXPECT_THAT(verdict.reason, HasSubstr("cannot send"));
  }
}

TEST(HttpExchange, AConnectionThatBreaksWithoutAWordIsForLater) {
  const Hasty receiver("", 100, Hasty::Then::closes);
  const plugin::Verdict verdict = deliver(receiver.url(), kLarge);
  EXPECT_EQ(verdict.fate, Fate::later);
  EXPECT_THAT(verdict.reason, HasSubstr("cannot send"));
}

TEST(HttpExchange, InterimAnswersArePassedOver) {
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n";
  const Hasty good(interim + "HTTP/1.1 204 Fine\r\n\r\n", 100, Hasty::Then::stays);
  EXPECT_EQ(deliver(good.url(), 10).fate, Fate::done);
  const Hasty refusing(interim + kTooLarge, 100, Hasty::Then::closes);
  EXPECT_EQ(deliver(refusing.url(), 10).reason, "HTTP 413");
  std::string endless;
  for (int i = 0; i < 100; ++i) endless += interim;
  const Hasty tiring(endless, 100, Hasty::Then::stays);
  const Instant begun = Clock::now();
  EXPECT_EQ(deliver(tiring.url(), 10).fate, Fate::later);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5)) << "that many are not waited through";
}

}  // namespace
}  // namespace gearbox::sink
