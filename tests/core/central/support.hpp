// support.hpp: what central's tests share: a loopback transport, a server on the test's own loop, and small clients.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "central/accounts.hpp"
#include "central/central.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/link/login.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/transport.hpp"
#include "gearbox/wire/messages.hpp"
#include "kinds.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central::test {

namespace asio = boost::asio;
using net::FrameStream;

inline constexpr milliseconds kWithin{20'000};
inline constexpr const char* kPassword = "a long enough word";

/// TCP on 127.0.0.1 with the plugin's interface, without the plugin.
class LoopbackTransport : public plugin::Transport {
 public:
  std::string_view scheme() const override { return "tcp"; }
  Outcome<plugin::Listening> listen(std::string_view) override {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    if (::bind(descriptor, reinterpret_cast<sockaddr*>(&address), bytes) != 0 || ::listen(descriptor, 1024) != 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
      return Error{Errc::io_error, "loopback listen"};
    }
    return plugin::Listening{descriptor, "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port))};
  }
  Outcome<plugin::Connection> accept(int listening) override {
    const int descriptor = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) return plugin::Connection{descriptor, "127.0.0.1:0", "127.0.0.1"};
    if (errno == EAGAIN) return Error{Errc::short_frame, {}};
    if (errno == EMFILE || errno == ENFILE) return Error{Errc::no_space, "descriptors"};
    return Error{Errc::closed, {}};
  }
  Outcome<plugin::Connection> connect(std::string_view url, Instant) override {
    const int descriptor = dial(url);
    if (descriptor < 0) return Error{Errc::unreachable, "loopback connect"};
    return plugin::Connection{descriptor, std::string(url), "127.0.0.1"};
  }
  /// A blocking connect on loopback answers at once; the socket is non-blocking after it. -1 on an error.
  static int dial(std::string_view url) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(std::string(url.substr(url.rfind(':') + 1)))));
    if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      ::close(descriptor);
      return -1;
    }
    return descriptor;
  }
};

/// Fewest queued and running, as the shipped plugin does by default.
class FewestBalancer : public plugin::Balancer {
 public:
  Outcome<plugin::CandidateId> pick(const plugin::RequestView&, std::span<const plugin::CandidateView> candidates,
                                    Instant) override {
    const plugin::CandidateView* best = &candidates.front();
    for (const auto& each : candidates) {
      if (each.queued + each.running < best->queued + best->running) best = &each;
    }
    return best->id;
  }
};

/// The text of a "host" report: one node that does `task` with one model.
inline wire::NodeReport report_of(const std::string& name, const std::string& task, std::uint32_t workers = 1,
                                  std::uint32_t queued = 0) {
  wire::NodeReport report;
  report.name = name;
  report.addresses = {"tcp://127.0.0.1:7601"};
  report.channel_key = to_hex(link::make_channel_keys().public_key);
  report.queued = queued;
  wire::ModelReport model;
  model.name = "reader";
  model.version = "4";
  model.workers = workers;
  report.models = {model};
  wire::TaskReport entry;
  entry.name = task;
  entry.models = {"reader@4"};
  entry.ready = workers > 0;
  report.tasks = {entry};
  return report;
}

/// Runs `work` to its end on `io`, which also runs the server; false when that takes too long.
inline bool drive(asio::io_context& io, asio::awaitable<void> work) {
  auto ended = std::make_shared<bool>(false);
  asio::co_spawn(io, std::move(work), [ended](std::exception_ptr failed) {
    *ended = true;
    if (failed) std::rethrow_exception(failed);
  });
  const Instant deadline = after(Clock::now(), seconds{60});
  io.restart();
  while (!*ended && Clock::now() < deadline) io.run_one_for(seconds{1});
  return *ended;
}

/// A sealed connection to central, and what travelled on it.
struct Client {
  std::shared_ptr<FrameStream> stream;
  Error last;  // of the last answer that was an error
  std::uint32_t retry_after_ms = 0;

  static asio::awaitable<Outcome<void>> connect(asio::io_context& io, std::shared_ptr<Client> self, std::string url,
                                                std::array<std::byte, 32> key) {
    const int descriptor = LoopbackTransport::dial(url);
    if (descriptor < 0) co_return Error{Errc::unreachable, url};
    // FrameStream sets the socket non-blocking when it adopts it.
    auto adopted = FrameStream::adopt(io.get_executor(), descriptor, url);
    if (!adopted) co_return adopted.error();
    self->stream = adopted.value();
    Outcome<void> sealed = co_await FrameStream::connect_sealed(self->stream, key, kWithin);
    co_return sealed;
  }

  static asio::awaitable<Outcome<void>> say(std::shared_ptr<Client> self, wire::FrameType type, std::string json,
                                            RequestId request = {}) {
    wire::FrameHeader header;
    header.type = type;
    header.request = request;
    Outcome<void> sent = co_await FrameStream::write_frame(self->stream, header, std::move(json), ByteView(), kWithin);
    co_return sent;
  }

  /// The JSON of the next frame when it is of `type`; an error frame's content else.
  static asio::awaitable<Outcome<std::string>> hear(std::shared_ptr<Client> self, wire::FrameType type) {
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(self->stream, kWithin);
    if (!frame) co_return frame.error();
    if (frame.value().header.type == type) co_return frame.value().json;
    Outcome<wire::ErrorMessage> message = wire::parse<wire::ErrorMessage>(frame.value().json);
    if (frame.value().header.type != wire::FrameType::error || !message)
      co_return Error{Errc::bad_frame, "another frame"};
    self->retry_after_ms = message.value().retry_after_ms;
    self->last = wire::to_error(message.value());
    co_return self->last;
  }

  static asio::awaitable<Outcome<std::string>> login(std::shared_ptr<Client> self, std::string role, std::string user,
                                                     const link::SigningKeys& keys) {
    wire::Hello hello;
    hello.role = std::move(role);
    hello.user = std::move(user);
    hello.agent = "test";
    link::sign_hello(keys, self->stream->h(), hello);
    std::string text = wire::to_json(hello);
    Outcome<void> sent = co_await say(self, wire::FrameType::hello, std::move(text));
    if (!sent) co_return sent.error();
    Outcome<std::string> answer = co_await hear(self, wire::FrameType::hello_ok);
    co_return answer;
  }

  static asio::awaitable<Outcome<std::string>> enrol(std::shared_ptr<Client> self, std::string user,
                                                     std::string password, std::string device,
                                                     const link::SigningKeys& keys) {
    wire::Enrol enrol;
    enrol.user = std::move(user);
    enrol.password = std::move(password);
    enrol.device = std::move(device);
    link::sign_enrol(keys, self->stream->h(), enrol);
    std::string text = wire::to_json(enrol);
    Outcome<void> sent = co_await say(self, wire::FrameType::enrol, std::move(text));
    if (!sent) co_return sent.error();
    Outcome<std::string> answer = co_await hear(self, wire::FrameType::hello_ok);
    co_return answer;
  }

  static asio::awaitable<Outcome<wire::Located>> locate(std::shared_ptr<Client> self, std::string task,
                                                        RequestId request = {}) {
    wire::Locate asked;
    asked.task = std::move(task);
    std::string text = wire::to_json(asked);
    Outcome<void> sent = co_await say(self, wire::FrameType::locate, std::move(text), request);
    if (!sent) co_return sent.error();
    Outcome<std::string> answer = co_await hear(self, wire::FrameType::located);
    if (!answer) co_return answer.error();
    co_return wire::parse<wire::Located>(answer.value());
  }

  static asio::awaitable<Outcome<wire::ReportOk>> report(std::shared_ptr<Client> self, wire::NodeReport what) {
    std::string text = wire::to_json(what);
    Outcome<void> sent = co_await say(self, wire::FrameType::node_report, std::move(text));
    if (!sent) co_return sent.error();
    Outcome<std::string> answer = co_await hear(self, wire::FrameType::report_ok);
    if (!answer) co_return answer.error();
    co_return wire::parse<wire::ReportOk>(answer.value());
  }
};

inline std::shared_ptr<Client> new_client() {
  return std::make_shared<Client>();
}

/// A central on 127.0.0.1 with one user ("maria") and one registered node ("barn").
class CentralTest : public ::testing::TestWithParam<Kind> {
 public:
  void SetUp() override {
    std::string missing;
    place_ = empty_place(GetParam(), folder_.path(), missing);
    if (!missing.empty()) GTEST_SKIP() << missing;
    state_.root = folder_.path();
    std::filesystem::create_directories(state_.keys());
    std::filesystem::permissions(state_.keys(), std::filesystem::perms::owner_all);
    auto accounts = Accounts::open(place_, OnDamage::restore);
    ASSERT_TRUE(accounts) << accounts.error().detail;
    accounts_ = std::move(accounts).value();
    User user;
    user.name = "maria";
    ASSERT_TRUE(accounts_->add_user(user, kPassword));
    ASSERT_TRUE(accounts_->add_node("barn", node_keys_.public_key));
    config_ = std::make_shared<config::Config>();
    configure(*config_);
    Central::Setup setup;
    setup.io = &io_;
    setup.state = state_;
    setup.accounts = place_;
    setup.config = config_;
    setup.transport = std::make_shared<LoopbackTransport>();
    setup.balancer = std::make_shared<FewestBalancer>();
    auto started = Central::start(std::move(setup));
    ASSERT_TRUE(started) << started.error().detail;
    central_ = std::move(started).value();
  }
  virtual void configure(config::Config& config) { config.central.node_silent = milliseconds{60'000}; }

  void enrol_device() { ASSERT_TRUE(accounts_->enrol("maria", "cam", device_keys_.public_key)); }

  std::uint64_t counter(const char* name) const {
    return central_->status().at("counters").as_object().at(name).to_number<std::uint64_t>();
  }

  gearbox::testing::TempDir folder_;
  config::StateDir state_;
  AccountsPlace place_;
  std::shared_ptr<config::Config> config_;
  std::unique_ptr<Accounts> accounts_;
  link::SigningKeys device_keys_ = link::make_signing_keys();
  link::SigningKeys node_keys_ = link::make_signing_keys();
  asio::io_context io_;
  std::unique_ptr<Central> central_;
};

}  // namespace gearbox::central::test
