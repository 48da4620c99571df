#include "sink/http_sink.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "conformance/sink_conformance.hpp"

namespace gearbox::sink {
namespace {

using plugin::Fate;
using ::testing::HasSubstr;

/// Takes one connection after the other on a port of its own, reads a request, and gives the answers in turn, the last
/// one again and again.
class Receiver {
 public:
  explicit Receiver(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 8), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    if (!answers_.empty()) thread_ = std::thread([this] { serve(); });
  }
  ~Receiver() {
    ::shutdown(listening_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(listening_);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/in"; }
  /// When nobody delivers any more.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept(listening_, nullptr, nullptr);
      if (connection < 0) return;
      std::string text;
      char piece[4096];
      for (;;) {
        const std::size_t head = text.find("\r\n\r\n");
        const std::size_t length = text.find("Content-Length: ");
        if (head != std::string::npos && length != std::string::npos &&
            text.size() >= head + 4 + std::stoul(text.substr(length + 16))) {
          break;
        }
        const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
        if (got <= 0) break;
        text.append(piece, static_cast<std::size_t>(got));
      }
      requests_.push_back(text);
      const std::string& answer = answers_[std::min(requests_.size(), answers_.size()) - 1];
      EXPECT_EQ(::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
      ::close(connection);
    }
  }

  std::vector<std::string> answers_, requests_;
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::string answer(const std::string& status, const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\n" + more + "Content-Length: 0\r\n\r\n";
}

plugin::Verdict deliver(const std::string& url, Instant deadline = test::in_ten_seconds()) {
  HttpSink sink(http_url(url).value(), "");
  EXPECT_TRUE(sink.open({"one", "node-1", "/"}));
  const test::SomeEvents events(0, 2);
  return sink.deliver(events.views(), deadline);
}

TEST(HttpSink, Conforms) {
  const Receiver receiver({answer("204 No Content")});
  const gearbox::testing::TempDir folder;
  HttpSink sink(http_url(receiver.url()).value(), "");
  test::conforms(sink, folder.path());
}

TEST(HttpSink, PostsAListOfEvents) {
  const gearbox::testing::TempDir folder;
  std::ofstream(folder.path() / "token") << "Bearer abc\nsecond line\n";
  const test::SomeEvents events(0, 2);
  std::string request;
  {
    const Receiver receiver({answer("200 OK")});
    HttpSink sink(http_url(receiver.url()).value(), (folder.path() / "token").string());
    ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
    EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::done);
    request = receiver.requests().at(0);
  }
  EXPECT_THAT(request, HasSubstr("POST /in HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer abc\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  const std::string body =
      "[" + std::string(events.views()[0].json) + ",\n" + std::string(events.views()[1].json) + "]";
  EXPECT_THAT(request, ::testing::EndsWith("\r\n\r\n" + body));
}

TEST(HttpSink, ATokenThatIsReplacedIsUsedFromTheNextDeliveryOn) {
  const gearbox::testing::TempDir folder;
  const std::filesystem::path file = folder.path() / "token";
  std::ofstream(file) << "Bearer old\r\n";
  const test::SomeEvents events(0, 1);
  std::vector<std::string> requests;
  {
    const Receiver receiver({answer("401 Unauthorized"), answer("200 OK")});
    HttpSink sink(http_url(receiver.url()).value(), file.string());
    ASSERT_TRUE(sink.open({"one", "node-1", "/"}));
    EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::later);
    std::ofstream(file, std::ios::trunc) << "Bearer new\n";
    EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::done);
    std::filesystem::remove(file);
    EXPECT_EQ(sink.deliver(events.views(), test::in_ten_seconds()).fate, Fate::later);
    requests = receiver.requests();
  }
  ASSERT_EQ(requests.size(), 2U) << "without its token it sends nothing";
  EXPECT_THAT(requests[0], HasSubstr("Authorization: Bearer old\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("Authorization: Bearer new\r\n"));
}

TEST(HttpSink, TellsWhatComesAgainFromWhatNeverWill) {
  const std::vector<std::pair<std::string, Fate>> cases = {
      {"200 OK", Fate::done},           {"202 Accepted", Fate::done},   {"301 Moved", Fate::later},
      {"400 Bad Request", Fate::never}, {"401 Who", Fate::later},       {"403 Not you", Fate::later},
      {"404 Not Found", Fate::later},   {"405 Not so", Fate::later},    {"407 Proxy", Fate::later},
      {"408 Timeout", Fate::later},     {"413 Too Large", Fate::never}, {"415 Type", Fate::never},
      {"422 Content", Fate::never},     {"425 Too Early", Fate::later}, {"429 Too Many", Fate::later},
      {"500 Internal", Fate::later},    {"503 Busy", Fate::later},      {"101 Switching", Fate::later}};
  for (const auto& [status, fate] : cases) {
    const Receiver receiver({answer(status)});
    const plugin::Verdict verdict = deliver(receiver.url());
    EXPECT_EQ(verdict.fate, fate) << status << ": " << verdict.reason;
    if (fate != Fate::done) {
      EXPECT_EQ(verdict.reason, "HTTP " + status.substr(0, 3));
    }
  }
}

TEST(HttpSink, HeedsRetryAfter) {
  const Receiver receiver({answer("503 Unavailable", "Retry-After: 7\r\n")});
  EXPECT_EQ(deliver(receiver.url()).pause, milliseconds{7000});
}

TEST(HttpSink, PutsOffWhatNobodyAnswers) {
  std::string url;
  {
    const Receiver gone({});
    url = gone.url();
  }
  const plugin::Verdict refused = deliver(url);
  EXPECT_EQ(refused.fate, Fate::later);
  EXPECT_THAT(refused.reason, HasSubstr("cannot connect"));

  const Receiver silent({});  // the kernel takes the connection, nobody reads
  const Instant begun = Clock::now();
  const plugin::Verdict verdict = deliver(silent.url(), after(begun, milliseconds{300}));
  EXPECT_EQ(verdict.fate, Fate::later);
  EXPECT_THAT(verdict.reason, HasSubstr("cannot read the answer"));
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
}

TEST(HttpSink, NonsenseIsNoAnswer) {
  const Receiver receiver({"hello\r\n\r\n"});
  EXPECT_EQ(deliver(receiver.url()).fate, Fate::later);
  const Receiver endless({"HTTP/1.1 200 OK\r\n" + std::string(100'000, 'x')});
  EXPECT_EQ(deliver(endless.url()).fate, Fate::later);
}

}  // namespace
}  // namespace gearbox::sink
