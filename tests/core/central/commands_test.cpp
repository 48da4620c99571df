// Commands for devices: what central keeps of them, and how they travel at a contact.
#include <gtest/gtest.h>

#include <chrono>

#include "gearbox/link/login.hpp"
#include "support.hpp"

namespace gearbox::central::test {
namespace {

constexpr std::int64_t kDay = 24 * 3600 * 1000;
constexpr std::int64_t kNow = 1'800'000'000'000;

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class DeviceCommands : public CentralTest {
 public:
  void SetUp() override {
    CentralTest::SetUp();
    if (!IsSkipped()) enrol_device();
  }

  std::uint64_t add(const std::vector<std::string>& words, std::int64_t now) {
    const auto number = accounts_->add_command(device_keys_.public_key, words, now);
    EXPECT_TRUE(number) << (number ? "" : number.error().detail);
    return number ? number.value() : 0;
  }
  std::optional<wire::Command> next(std::int64_t now) {
    const auto found = accounts_->next_command(device_keys_.public_key, now);
    EXPECT_TRUE(found);
    return found ? found.value() : std::nullopt;
  }
  bool answer(std::uint64_t number, const std::string& text) {
    const auto first = accounts_->command_answered(device_keys_.public_key, {number, true, text}, kNow + 9);
    EXPECT_TRUE(first);
    return first && first.value();
  }

  /// One contact: logs in, answers each command with `text` (empty: not at all), asks where `task` is. What it was
  /// sent.
  static asio::awaitable<void> contact(DeviceCommands* self, bool takes, std::string text,
                                       std::shared_ptr<std::vector<wire::Command>> sent,
                                       std::shared_ptr<bool> located) {
    auto client = new_client();
    Outcome<void> sealed =
        co_await Client::connect(self->io_, client, self->central_->url(), self->central_->channel_key());
    EXPECT_TRUE(sealed);
    wire::Hello hello;
    hello.role = "device";
    hello.user = "maria";
    hello.agent = "tester 1";
    link::sign_hello(self->device_keys_, client->stream->h(), hello);
    std::string json = wire::to_json(hello);
    Outcome<void> said = co_await Client::say(client, wire::FrameType::hello, std::move(json));
    EXPECT_TRUE(said);
    if (takes) {
      said = co_await Client::say(client, wire::kCommand, std::string());
      EXPECT_TRUE(said);
    }
    // At once, before it has heard of any command.
    wire::Locate asked;
    asked.task = "read-text";
    json = wire::to_json(asked);
    RequestId request;
    request.bytes.fill(std::byte{7});
    said = co_await Client::say(client, wire::FrameType::locate, std::move(json), request);
    EXPECT_TRUE(said);
    for (;;) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(client->stream, kWithin);
      if (!frame) co_return;
      const wire::FrameType type = frame.value().header.type;
      if (type == wire::FrameType::error) {  // no node is there: as good an answer as one
        *located = frame.value().header.request == request;
        client->stream->close();
        co_return;
      }
      if (type != wire::kCommand) continue;
      const auto command = wire::parse<wire::Command>(frame.value().json);
      EXPECT_TRUE(command);
      EXPECT_FALSE(*located) << "a command after the answer";
      sent->push_back(command.value());
      if (text.empty()) {
        client->stream->close();
        co_return;
      }
      wire::CommandAnswer answer;
      answer.number = command.value().number;
      answer.ok = true;
      answer.text = text + " " + command.value().words.front();
      json = wire::to_json(answer);
      said = co_await Client::say(client, wire::kCommandAnswer, std::move(json));
      EXPECT_TRUE(said);
    }
  }
  std::vector<wire::Command> contact(const std::string& text, bool takes = true) {
    const auto sent = std::make_shared<std::vector<wire::Command>>();
    const auto located = std::make_shared<bool>(false);
    EXPECT_TRUE(drive(io_, contact(this, takes, text, sent, located)));
    EXPECT_EQ(*located, !text.empty());
    return *sent;
  }
  std::vector<DeviceCommand> kept() {
    const auto commands = accounts_->commands(device_keys_.public_key);
    EXPECT_TRUE(commands);
    return commands ? commands.value() : std::vector<DeviceCommand>();
  }
};

TEST_P(DeviceCommands, AreKeptInOrderUntilTheyAreAnswered) {
  const std::uint64_t first = add({"status"}, kNow);
  const std::uint64_t second = add({"set-rate", "20 000"}, kNow);
  EXPECT_GT(second, first);
  ASSERT_TRUE(next(kNow));
  EXPECT_EQ(next(kNow)->number, first);
  EXPECT_TRUE(answer(first, "fine"));
  ASSERT_TRUE(next(kNow));
  EXPECT_EQ(next(kNow)->number, second);
  EXPECT_EQ(next(kNow)->words, (std::vector<std::string>{"set-rate", "20 000"}));
  EXPECT_TRUE(answer(second, "set"));
  EXPECT_FALSE(next(kNow));
}

TEST_P(DeviceCommands, TheFirstAnswerStays) {
  const std::uint64_t number = add({"status"}, kNow);
  EXPECT_TRUE(answer(number, "the first"));
  EXPECT_FALSE(answer(number, "another"));
  EXPECT_FALSE(answer(number + 1, "of no command"));
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0].answer, "the first");
  EXPECT_STREQ(kept()[0].state(kNow), "done");
}

TEST_P(DeviceCommands, ArePartOfTheCopyOfTheAccounts) {
  if (place_.is_shared()) GTEST_SKIP() << "the copies of such a database are its administrator's business";
  std::filesystem::path copy = state_.central_db();
  copy += ".backup";
  const std::uint64_t number = add({"status"}, kNow);
  auto restored = Accounts::open(copy, OnDamage::refuse);
  ASSERT_TRUE(restored) << restored.error().detail;
  const auto found = restored.value()->next_command(device_keys_.public_key, kNow);
  ASSERT_TRUE(found && found.value());
  EXPECT_EQ(found.value()->number, number);
}

TEST_P(DeviceCommands, AreTakenThoughTheCopyCannotBeKept) {
  if (place_.is_shared()) GTEST_SKIP() << "the copies of such a database are its administrator's business";
  std::filesystem::path copy = state_.central_db();
  copy += ".backup";
  std::filesystem::remove(copy);
  std::filesystem::create_directories(copy / "in the way");
  const auto number = accounts_->add_command(device_keys_.public_key, {"status"}, kNow);
  ASSERT_TRUE(number) << describe(number.error());
  const auto command = next(kNow);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->number, number.value());
}

TEST_P(DeviceCommands, NumbersGoOnWhenAnOlderDatabaseComesBack) {
  const std::uint64_t number = add({"status"}, kNow);
  EXPECT_GE(number, static_cast<std::uint64_t>(kNow)) << "a number of the time, not a count that would begin anew";
  EXPECT_GT(add({"status"}, kNow - kDay), number) << "a clock that was put back";
}

TEST_P(DeviceCommands, AreRefusedWhenTooManyWait) {
  for (std::size_t i = 0; i < DeviceCommand::kMostWaiting; ++i) add({"status"}, kNow);
  const auto refused = accounts_->add_command(device_keys_.public_key, {"status"}, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::overloaded);
  add({"status"}, kNow + 8 * kDay);  // those before have expired
}

TEST_P(DeviceCommands, ExpireAfterAWeekAndAreForgottenAfterAMonth) {
  add({"status"}, kNow);
  EXPECT_TRUE(next(kNow + 6 * kDay));
  EXPECT_FALSE(next(kNow + 8 * kDay));
  EXPECT_STREQ(kept()[0].state(kNow + 8 * kDay), "expired");
  add({"status"}, kNow + 31 * kDay);
  EXPECT_EQ(kept().size(), 1U);
}

TEST_P(DeviceCommands, OnlySoManyEndedOnesAreKept) {
  for (std::size_t i = 0; i < DeviceCommand::kMostKept + 10; ++i) answer(add({"status"}, kNow), "x");
  EXPECT_LE(kept().size(), DeviceCommand::kMostKept);
}

TEST_P(DeviceCommands, WordsAndDevicesAreChecked) {
  const auto code = [&](const std::vector<std::string>& words) {
    const auto refused = accounts_->add_command(device_keys_.public_key, words, kNow);
    return refused ? Errc{} : refused.error().code;
  };
  EXPECT_EQ(code({}), Errc::bad_input);
  EXPECT_EQ(code({"two words"}), Errc::bad_name);
  EXPECT_EQ(code({"set-rate", "1\n2"}), Errc::bad_input);
  EXPECT_EQ(code(std::vector<std::string>(wire::kMaxCommandWords + 1, "x")), Errc::bad_input);
  EXPECT_EQ(code({"x", std::string(wire::kMaxCommandBytes, 'y')}), Errc::bad_input);
  const auto stranger = accounts_->add_command(node_keys_.public_key, {"status"}, kNow);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, Errc::not_found);
}

TEST_P(DeviceCommands, AllAreDeliveredAtOneContactBeforeTheAnswerToLocate) {
  add({"status"}, wall_clock_ms());
  add({"set-rate", "off"}, wall_clock_ms());
  const auto sent = contact("did");
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].words.front(), "status");
  EXPECT_EQ(sent[1].words.front(), "set-rate");
  ASSERT_EQ(kept().size(), 2U);
  EXPECT_EQ(kept()[1].answer, "did set-rate");
  EXPECT_TRUE(kept()[1].ok);
  EXPECT_TRUE(contact("again").empty());
}

TEST_P(DeviceCommands, OneThatWasNotAnsweredIsSentAgain) {
  const std::uint64_t number = add({"restart"}, wall_clock_ms());
  ASSERT_EQ(contact("").size(), 1U);
  EXPECT_TRUE(kept()[0].answered_unix_ms == 0);
  const auto again = contact("did");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].number, number);
  EXPECT_EQ(kept()[0].answer, "did restart");
}

TEST_P(DeviceCommands, ADeviceThatTakesNoneGetsNone) {
  add({"status"}, wall_clock_ms());
  EXPECT_TRUE(contact("never", false).empty());
  EXPECT_EQ(kept()[0].sent_unix_ms, 0);
}

TEST_P(DeviceCommands, AContactIsNotedWithItsAddressAndProgram) {
  contact("x");
  bool stopped = false;
  central_->stop([&] { stopped = true; });
  const Instant deadline = after(Clock::now(), seconds{20});
  io_.restart();
  while (!stopped && Clock::now() < deadline) io_.run_one_for(seconds{1});
  const auto devices = accounts_->devices();
  ASSERT_TRUE(devices && devices.value().size() == 1);
  EXPECT_EQ(devices.value()[0].agent, "tester 1");
  EXPECT_TRUE(devices.value()[0].address.starts_with("127.0.0.1")) << devices.value()[0].address;
  EXPECT_GT(devices.value()[0].last_seen_unix_ms, 0);
}

INSTANTIATE_TEST_SUITE_P(On, DeviceCommands, ::testing::Values(Kind::sqlite, Kind::postgres), name_of);

}  // namespace
}  // namespace gearbox::central::test
