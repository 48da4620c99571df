// Central from outside, over real sockets on 127.0.0.1: one loop runs the server and its clients.
#include "central/central.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>

#include "gearbox/link/ticket.hpp"
#include "gearbox/net/wakeup.hpp"
#include "support.hpp"

namespace gearbox::central::test {
namespace {

using wire::FrameType;

/// Bytes that a stranger sends instead of a handshake; true when the server ends the connection.
bool closes_on(asio::io_context& io, const std::string& url, const std::string& bytes) {
  const int descriptor = LoopbackTransport::dial(url);
  if (descriptor < 0) return false;
  if (!bytes.empty() && ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return false;
  ::shutdown(descriptor, SHUT_WR);
  const Instant deadline = after(Clock::now(), seconds{20});
  char byte = 0;
  bool closed = false;
  io.restart();
  while (!closed && Clock::now() < deadline) {
    io.run_one_for(milliseconds{100});
    const ssize_t got = ::recv(descriptor, &byte, 1, MSG_DONTWAIT);
    closed = got == 0 || (got < 0 && errno == ECONNRESET);
  }
  ::close(descriptor);
  return closed;
}

class CentralEndToEnd : public CentralTest {
 public:
  /// A node logged in and heard of once; it stays connected as long as the returned client lives.
  std::shared_ptr<Client> connect_node(wire::NodeReport report) {
    auto client = new_client();
    EXPECT_TRUE(drive(io_, node_up(this, client, std::move(report))));
    return client;
  }
  static asio::awaitable<void> node_up(CentralEndToEnd* self, std::shared_ptr<Client> client, wire::NodeReport report) {
    Outcome<void> sealed =
        co_await Client::connect(self->io_, client, self->central_->url(), self->central_->channel_key());
    EXPECT_TRUE(sealed);
    Outcome<std::string> welcome = co_await Client::login(client, "node", "", self->node_keys_);
    EXPECT_TRUE(welcome);
    Outcome<wire::ReportOk> answer = co_await Client::report(client, std::move(report));
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().detail);
    if (answer) self->last_report_ok_ = answer.value();
  }
  static asio::awaitable<void> ask(CentralEndToEnd* self, std::shared_ptr<Client> client, std::string task,
                                   std::shared_ptr<Outcome<wire::Located>> into) {
    Outcome<void> sealed =
        co_await Client::connect(self->io_, client, self->central_->url(), self->central_->channel_key());
    EXPECT_TRUE(sealed);
    Outcome<std::string> welcome = co_await Client::login(client, "device", "maria", self->device_keys_);
    if (!welcome) {
      *into = welcome.error();
      co_return;
    }
    *into = co_await Client::locate(client, std::move(task));
  }
  Outcome<wire::Located> locate(const std::string& task, std::shared_ptr<Client> client = new_client()) {
    auto answer = std::make_shared<Outcome<wire::Located>>(Error{});
    EXPECT_TRUE(drive(io_, ask(this, client, task, answer)));
    return *answer;
  }
  static asio::awaitable<void> try_enrol(CentralEndToEnd* self, std::shared_ptr<Client> client, std::string user,
                                         std::string password, std::shared_ptr<Outcome<std::string>> into) {
    Outcome<void> sealed =
        co_await Client::connect(self->io_, client, self->central_->url(), self->central_->channel_key());
    EXPECT_TRUE(sealed);
    *into = co_await Client::enrol(client, std::move(user), std::move(password), "cam", self->device_keys_);
  }
  Outcome<std::string> enrol(const std::string& user, const std::string& password,
                             std::shared_ptr<Client> client = new_client()) {
    auto answer = std::make_shared<Outcome<std::string>>(Error{});
    EXPECT_TRUE(drive(io_, try_enrol(this, client, user, password, answer)));
    return *answer;
  }
  wire::ReportOk last_report_ok_;
};

TEST_P(CentralEndToEnd, ADeviceEnrolsLogsInAndGetsTheNodeWithATicketThatTheNodeAccepts) {
  const auto node = connect_node(report_of("barn", "read-text"));
  ASSERT_TRUE(enrol("maria", kPassword));
  const auto client = new_client();
  const auto located = locate("read-text", client);
  ASSERT_TRUE(located) << located.error().detail;
  EXPECT_EQ(located.value().node, "barn");
  EXPECT_EQ(located.value().addresses, std::vector<std::string>{"tcp://127.0.0.1:7601"});

  std::map<std::string, PublicKey> keys;
  for (const auto& [id, hex] : last_report_ok_.ticket_keys) keys[id] = public_key_from(hex).value();
  link::TicketCheck against;
  against.keys = &keys;
  against.node = to_text(node_keys_.public_key);
  against.device = device_keys_.public_key;
  against.central_unix_ms = last_report_ok_.central_unix_ms;
  const auto ticket = link::check_ticket(located.value().ticket, against);
  ASSERT_TRUE(ticket) << ticket.error().detail;
  EXPECT_EQ(ticket.value().user, "maria");
  EXPECT_EQ(ticket.value().tasks, std::vector<std::string>{"read-text"});

  // To the very end: central's end mark, then ours.
  auto end = std::make_shared<Outcome<std::string>>(Error{});
  const auto hear_end = [](std::shared_ptr<Client> from,
                           std::shared_ptr<Outcome<std::string>> into) -> asio::awaitable<void> {
    *into = co_await Client::hear(from, FrameType::hello_ok);
  };
  ASSERT_TRUE(drive(io_, hear_end(client, end)));
  EXPECT_EQ(end->error().code, Errc::closed);
  client->stream->close();
  const std::uint64_t bytes = client->stream->bytes_read() + client->stream->bytes_written();
  RecordProperty("bytes_per_locate", std::to_string(bytes));
  std::printf("central.bytes_per_locate = %llu\n", static_cast<unsigned long long>(bytes));
  EXPECT_LE(bytes, 2048U);
}

TEST_P(CentralEndToEnd, ANodeIsToldTheWayToRanksOnAnotherOneWithATicketForThatGroupOnly) {
  const auto node = connect_node(report_of("barn", "read-text"));
  const auto ask_way = [](std::shared_ptr<Client> client, std::string question,
                          std::shared_ptr<std::string> into) -> asio::awaitable<void> {
    Outcome<void> sent = co_await Client::say(client, wire::FrameType::ranks_ask, std::move(question));
    EXPECT_TRUE(sent);
    Outcome<std::string> told = co_await Client::hear(client, wire::FrameType::ranks_told);
    if (told) *into = told.value();
  };
  const auto told = std::make_shared<std::string>();
  ASSERT_TRUE(drive(io_, ask_way(node, R"({"node":"barn","group":"story"})", told)));
  const auto way = wire::parse<wire::Located>(*told);
  ASSERT_TRUE(way) << *told;
  EXPECT_EQ(way.value().addresses, std::vector<std::string>{"tcp://127.0.0.1:7601"});
  std::map<std::string, PublicKey> keys;
  for (const auto& [id, hex] : last_report_ok_.ticket_keys) keys[id] = public_key_from(hex).value();
  link::TicketCheck against;
  against.keys = &keys;
  against.node = to_text(node_keys_.public_key);
  against.device = node_keys_.public_key;
  against.central_unix_ms = last_report_ok_.central_unix_ms;
  const auto ticket = link::check_ticket(way.value().ticket, against);
  ASSERT_TRUE(ticket) << ticket.error().detail;
  EXPECT_EQ(ticket.value().user, "barn");
  EXPECT_EQ(ticket.value().ranks, "story");
  EXPECT_FALSE(ticket.value().gears);
  EXPECT_TRUE(ticket.value().tasks.empty());
  EXPECT_FALSE(ticket.value().own_steps);

  // The way to decide on its groups: another right, and no other one with it.
  ASSERT_TRUE(drive(io_, ask_way(node, R"({"node":"barn","gears":true})", told)));
  const auto other = wire::parse<wire::Located>(*told);
  ASSERT_TRUE(other && !other.value().ticket.empty()) << *told;
  const auto gears = link::check_ticket(other.value().ticket, against);
  ASSERT_TRUE(gears) << gears.error().detail;
  EXPECT_TRUE(gears.value().gears);
  EXPECT_EQ(gears.value().ranks, "");
  EXPECT_TRUE(gears.value().tasks.empty());

  for (const auto& [question, code] :
       std::map<std::string, Errc>{{R"({"node":"nowhere","group":"story"})", Errc::no_node},
                                   {R"({"node":"barn","group":"../story"})", Errc::bad_name},
                                   {R"({"node":"barn","group":"story","gears":true})", Errc::bad_frame},
                                   {R"({"node":"nowhere","gears":true})", Errc::no_node},
                                   {"[]", Errc::bad_frame}}) {
    ASSERT_TRUE(drive(io_, ask_way(node, question, told)));
    const auto refusal = wire::parse<wire::ErrorMessage>(*told);
    ASSERT_TRUE(refusal) << *told;
    EXPECT_EQ(refusal.value().code, static_cast<std::uint16_t>(code)) << question;
  }
}

TEST_P(CentralEndToEnd, WrongPasswordsAndUnknownUsersGetTheSameAnswer) {
  const auto wrong = enrol("maria", "not the word");
  const auto unknown = enrol("mario", kPassword);
  ASSERT_FALSE(wrong);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(wrong.error().code, Errc::auth_failed);
  EXPECT_EQ(wrong.error().code, unknown.error().code);
  EXPECT_EQ(wrong.error().detail, unknown.error().detail);
  EXPECT_TRUE(enrol("maria", kPassword));
}

TEST_P(CentralEndToEnd, ADeviceThatIsNotEnrolledIsRefused) {
  const auto refused = locate("read-text");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::auth_failed);
}

TEST_P(CentralEndToEnd, UnknownTasksAndMissingWorkersAreToldApart) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text", 0));
  const auto client = new_client();
  const auto none = locate("read-text", client);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::no_node);
  EXPECT_NE(none.error().detail.find("reader@4"), std::string::npos) << none.error().detail;
  EXPECT_EQ(client->retry_after_ms, 1000U);
  EXPECT_EQ(locate("../../etc/passwd").error().code, Errc::bad_name);
}

TEST_P(CentralEndToEnd, ARevokedDeviceIsShutOutAndTheNodesAreTold) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  ASSERT_TRUE(locate("read-text"));
  ASSERT_TRUE(accounts_->revoke_device(device_keys_.public_key));
  EXPECT_EQ(locate("read-text").error().code, Errc::auth_failed);
  const auto again = connect_node(report_of("barn", "read-text"));
  EXPECT_EQ(last_report_ok_.revoked, std::vector<std::string>{to_text(device_keys_.public_key)});
}

TEST_P(CentralEndToEnd, ANodeThatIsNotRegisteredOrWasRemovedIsRefused) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  ASSERT_TRUE(accounts_->remove_node("barn"));
  auto answer = std::make_shared<Outcome<wire::ReportOk>>(wire::ReportOk{});
  const auto one_more = [](std::shared_ptr<Client> client, wire::NodeReport report,
                           std::shared_ptr<Outcome<wire::ReportOk>> into) -> asio::awaitable<void> {
    *into = co_await Client::report(client, std::move(report));
  };
  // A database that is slow to answer is asked again at the next report.
  const Instant deadline = after(Clock::now(), seconds{20});
  while (*answer && Clock::now() < deadline) {
    ASSERT_TRUE(drive(io_, one_more(node, report_of("barn", "read-text"), answer)));
  }
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, Errc::auth_failed);
  EXPECT_FALSE(locate("read-text"));
}

TEST_P(CentralEndToEnd, ANodeWhoseConnectionEndsIsNotOffered) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  ASSERT_TRUE(locate("read-text"));
  node->stream->close();
  const Instant deadline = after(Clock::now(), seconds{20});
  Outcome<wire::Located> answer = locate("read-text");
  while (answer && Clock::now() < deadline) answer = locate("read-text");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::no_node);
}

TEST_P(CentralEndToEnd, AClientThatPinnedAnotherKeyNoticesBeforeItSaysAnything) {
  auto result = std::make_shared<Outcome<void>>(done());
  const auto dial = [](asio::io_context& io, std::string url,
                       std::shared_ptr<Outcome<void>> into) -> asio::awaitable<void> {
    auto client = new_client();
    *into = co_await Client::connect(io, client, url, link::make_channel_keys().public_key);
  };
  ASSERT_TRUE(drive(io_, dial(io_, central_->url(), result)));
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, Errc::wrong_server_key);
}

TEST_P(CentralEndToEnd, GarbageTlsAndHttpAreClosedAndTheNextDeviceIsServed) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  std::vector<std::string> inputs = {"", "G", std::string(100'000, '\xFF'), std::string(40, '\0'),
                                     "GET / HTTP/1.1\r\nHost: x\r\n\r\n"};
  const std::filesystem::path cases = std::filesystem::path(GEARBOX_SOURCE_DIR) / "../shared/cases";
  if (std::filesystem::is_directory(cases)) {
    for (const auto& entry : std::filesystem::directory_iterator(cases)) {
      if (!entry.path().filename().string().starts_with("c74_")) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  } else {
    std::printf("NOT RUN: the samples of foreign protocols are not there (%s)\n", cases.c_str());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(closes_on(io_, central_->url(), inputs[i])) << "input " << i;
  EXPECT_EQ(counter("handshakes_failed"), inputs.size());
  EXPECT_TRUE(locate("read-text"));
}

TEST_P(CentralEndToEnd, AFirstFrameThatIsTooLargeIsRefusedWithAReason) {
  auto answer = std::make_shared<Outcome<std::string>>(Error{});
  const auto talk = [](CentralEndToEnd* self, std::shared_ptr<Outcome<std::string>> into) -> asio::awaitable<void> {
    auto client = new_client();
    Outcome<void> sealed =
        co_await Client::connect(self->io_, client, self->central_->url(), self->central_->channel_key());
    EXPECT_TRUE(sealed);
    std::string json = "{\"user\":\"" + std::string(50'000, 'x') + "\"}";
    Outcome<void> sent = co_await Client::say(client, FrameType::hello, std::move(json));
    EXPECT_TRUE(sent);
    *into = co_await Client::hear(client, FrameType::hello_ok);
  };
  ASSERT_TRUE(drive(io_, talk(this, answer)));
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, Errc::frame_too_large);
}

class FewTries : public CentralEndToEnd {
  void configure(config::Config& config) override { config.central.password_tries_per_minute = 2; }
};

TEST_P(FewTries, PasswordGuessingIsSlowedDownAndToldWhenToTryAgain) {
  EXPECT_EQ(enrol("maria", "guess one one").error().code, Errc::auth_failed);
  EXPECT_EQ(enrol("maria", "guess two two").error().code, Errc::auth_failed);
  const auto client = new_client();
  EXPECT_EQ(enrol("maria", kPassword, client).error().code, Errc::rate_limited);
  EXPECT_GT(client->retry_after_ms, 20'000U);
  EXPECT_EQ(counter("rate_limited"), 1U);
}

class SoonSilent : public CentralEndToEnd {
  void configure(config::Config& config) override { config.central.node_silent = milliseconds{200}; }
};

TEST_P(SoonSilent, ANodeThatSaysNothingIsNotOfferedAlthoughItsConnectionStands) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  const Instant deadline = after(Clock::now(), seconds{20});
  Outcome<wire::Located> answer = locate("read-text");
  while (answer && Clock::now() < deadline) answer = locate("read-text");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::no_node);
  EXPECT_NE(answer.error().detail.find("silent"), std::string::npos) << answer.error().detail;
  EXPECT_EQ(central_->status().at("nodes").as_array().at(0).as_object().at("state").as_string(), "silent");
}

TEST_P(CentralEndToEnd, RunningOutOfDescriptorsPausesAcceptingAndItGoesOnByItself) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  // Idle connections of ours until no descriptor is left: each takes two, one on either side.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 40;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::vector<int> held;
  for (int descriptor = LoopbackTransport::dial(central_->url()); descriptor >= 0;
       descriptor = LoopbackTransport::dial(central_->url())) {
    held.push_back(descriptor);
  }
  const Instant deadline = after(Clock::now(), seconds{20});
  io_.restart();
  while (counter("accept_pauses") == 0 && Clock::now() < deadline) io_.run_one_for(milliseconds{100});
  EXPECT_GT(counter("accept_pauses"), 0U);
  EXPECT_LT(counter("accept_pauses"), 10U);  // no busy loop
  for (const int descriptor : held) ::close(descriptor);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(locate("read-text"));
}

class FewConnections : public CentralEndToEnd {
  void configure(config::Config& config) override { config.central.max_connections = 2; }
};

TEST_P(FewConnections, OneTooManyIsClosedAtOnceAndThereIsRoomAgainLater) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  const int held = LoopbackTransport::dial(central_->url());
  const Instant deadline = after(Clock::now(), seconds{20});
  io_.restart();
  while (central_->status().at("connections").to_number<int>() < 2 && Clock::now() < deadline)
    io_.run_one_for(milliseconds{100});
  EXPECT_TRUE(closes_on(io_, central_->url(), ""));
  EXPECT_EQ(counter("refused"), 1U);
  ::close(held);
  io_.restart();
  while (central_->status().at("connections").to_number<int>() > 1 && Clock::now() < deadline)
    io_.run_one_for(milliseconds{100});
  EXPECT_TRUE(locate("read-text"));
}

TEST_P(CentralEndToEnd, StoppingEndsConnectionsAndIsDoneWithinItsBound) {
  const auto node = connect_node(report_of("barn", "read-text"));
  bool stopped = false;
  central_->stop([&] { stopped = true; });
  const Instant deadline = after(Clock::now(), seconds{20});
  io_.restart();
  while (!stopped && Clock::now() < deadline) io_.run_one_for(milliseconds{100});
  EXPECT_TRUE(stopped);
  EXPECT_LT(LoopbackTransport::dial(central_->url()), 0);  // nobody listens any more
}

/// The database goes for a while, which not every central notices by its lock at once.
class DatabaseAway : public CentralEndToEnd {
 public:
  bool reports(std::shared_ptr<Client> node) {
    auto good = std::make_shared<bool>(false);
    EXPECT_TRUE(drive(io_, report_once(std::move(node), good)));
    return *good;
  }
  static asio::awaitable<void> report_once(std::shared_ptr<Client> node, std::shared_ptr<bool> good) {
    wire::NodeReport report = report_of("barn", "read-text");
    Outcome<wire::ReportOk> answer = co_await Client::report(node, std::move(report));
    *good = answer.has_value();
  }
};

TEST_P(DatabaseAway, DevicesAreToldWhenToTryAgainNodesStayAndItGoesOnByItself) {
  enrol_device();
  const auto node = connect_node(report_of("barn", "read-text"));
  ASSERT_TRUE(locate("read-text"));
  gearbox::testing::PostgresServer::get().stop();
  for (int i = 0; i < 5; ++i) {
    const auto client = new_client();
    const auto refused = locate("read-text", client);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::overloaded) << refused.error().detail;
    EXPECT_EQ(refused.error().detail.find("socket"), std::string::npos)
        << "not libpq's words: " << refused.error().detail;
    EXPECT_GT(client->retry_after_ms, 0U);
  }
  const auto client = new_client();
  EXPECT_FALSE(enrol("maria", kPassword, client));
  EXPECT_EQ(client->last.code, Errc::overloaded) << client->last.detail;
  EXPECT_TRUE(reports(node)) << "what was let in stays";
  gearbox::testing::PostgresServer::get().restart();
  const Instant deadline = after(Clock::now(), seconds{20});
  while (!locate("read-text") && Clock::now() < deadline) {
  }
  EXPECT_TRUE(locate("read-text"));
  EXPECT_TRUE(reports(node));
}
INSTANTIATE_TEST_SUITE_P(On, DatabaseAway, ::testing::Values(Kind::postgres), name_of);

const auto kBoth = ::testing::Values(Kind::sqlite, Kind::postgres);
INSTANTIATE_TEST_SUITE_P(On, CentralEndToEnd, kBoth, name_of);
// These are about sockets; accounts need not be looked at twice.
INSTANTIATE_TEST_SUITE_P(On, FewTries, ::testing::Values(Kind::sqlite), name_of);
INSTANTIATE_TEST_SUITE_P(On, SoonSilent, ::testing::Values(Kind::sqlite), name_of);
INSTANTIATE_TEST_SUITE_P(On, FewConnections, ::testing::Values(Kind::sqlite), name_of);

}  // namespace
}  // namespace gearbox::central::test
