#include "scheduler/host_stream.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <vector>

#include "gearbox/wire/messages.hpp"
#include "serving/accept_loop.hpp"
#include "serving/unix_socket.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::scheduler {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using net::FrameStream;
using wire::FrameType;

constexpr milliseconds kWithin{20'000};

/// A node that lets a scheduler in, and keeps its questions until the test answers them.
class FakeNode {
 public:
  FakeNode(asio::io_context& io, const std::filesystem::path& path)
      : io_(io), listener_(std::move(serving::UnixListener::open(path)).value()) {
    serving::AcceptLoop::Setup setup;
    setup.executor = io.get_executor();
    setup.listening = listener_.give_away();
    setup.accept = serving::accept_unix;
    setup.full = [] { return false; };
    setup.accepted = [this](plugin::Connection connection) {
      ++came;
      stream_ = FrameStream::adopt(io_.get_executor(), connection.descriptor, "scheduler").value();
      asio::co_spawn(io_, serve(this, stream_), asio::detached);
    };
    loop_ = serving::AcceptLoop::start(std::move(setup)).value();
  }
  ~FakeNode() { loop_->stop(); }

  void send(FrameType type, const RequestId& id, const std::string& text) {
    asio::co_spawn(io_, write(stream_, type, id, text), asio::detached);
  }
  void hang_up() { stream_->close(); }

  int came = 0;
  std::string refusal;  // to gears_open
  int renew_ms = 60'000;
  std::vector<wire::Frame> questions;

 private:
  static asio::awaitable<void> write(std::shared_ptr<FrameStream> stream, FrameType type, RequestId id,
                                     std::string text) {
    wire::FrameHeader header;
    header.type = type;
    header.request = id;
    EXPECT_TRUE(co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kWithin));
  }
  static asio::awaitable<void> serve(FakeNode* self, std::shared_ptr<FrameStream> stream) {
    for (;;) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kWithin);
      if (!frame) co_return;
      if (frame.value().header.type == FrameType::hello) {
        self->send(FrameType::hello_ok, {}, "{}");
      } else if (frame.value().header.type == FrameType::gears_open) {
        EXPECT_EQ(frame.value().json, R"({"node":"south"})");
        if (self->refusal.empty()) {
          self->send(FrameType::gears_open, {}, "{\"renew_ms\":" + std::to_string(self->renew_ms) + "}");
        } else {
          const Error why{Errc::not_allowed, self->refusal};
          self->send(FrameType::error, {}, wire::to_json(wire::to_message(why)));
        }
      } else {
        self->questions.push_back(std::move(frame).value());
      }
    }
  }

  asio::io_context& io_;
  serving::UnixListener listener_;
  std::shared_ptr<serving::AcceptLoop> loop_;
  std::shared_ptr<FrameStream> stream_;
};

class HostStreamTest : public ::testing::Test {
 protected:
  HostStreamTest()
      : node_(io_, folder_.path() / "node.sock"),
        stream_(std::make_shared<HostStream>(io_.get_executor(), folder_.path() / "node.sock", "south")) {}
  ~HostStreamTest() override {
    stream_->close();
    io_.restart();
    io_.poll();
  }
  void until(const std::function<bool()>& what) {
    io_.restart();
    const Instant deadline = after(Clock::now(), kWithin);
    while (!what() && Clock::now() < deadline) io_.run_one_for(milliseconds(100));
    ASSERT_TRUE(what());
  }
  Outcome<void> open() {
    const auto result = std::make_shared<std::optional<Outcome<void>>>();
    asio::co_spawn(io_, open_into(stream_, result), asio::detached);
    until([&] { return result->has_value(); });
    return **result;
  }
  using Result = std::shared_ptr<std::optional<gear_facts::Answer>>;
  Result ask(std::uint64_t term, milliseconds within = kWithin) {
    const auto result = std::make_shared<std::optional<gear_facts::Answer>>();
    asio::co_spawn(io_, ask_into(stream_, term, within, result), asio::detached);
    return result;
  }
  static asio::awaitable<void> open_into(std::shared_ptr<HostStream> stream,
                                         std::shared_ptr<std::optional<Outcome<void>>> into) {
    Outcome<void> opened = co_await stream->open();
    into->emplace(std::move(opened));
  }
  static asio::awaitable<void> ask_into(std::shared_ptr<HostStream> stream, std::uint64_t term, milliseconds within,
                                        Result into) {
    json::object command{{"command", "groups"}, {"term", term}};
    gear_facts::Answer answer = co_await stream->ask("executor", std::move(command), within);
    into->emplace(std::move(answer));
  }

  testing::TempDir folder_;
  asio::io_context io_;
  FakeNode node_;
  std::shared_ptr<HostStream> stream_;
};

TEST_F(HostStreamTest, AnswersFindTheirQuestionsInWhateverOrderTheyCome) {
  ASSERT_TRUE(open());
  const Result first = ask(1), second = ask(2);
  until([&] { return node_.questions.size() == 2; });
  EXPECT_EQ(node_.questions[0].json, R"({"command":"groups","term":1,"to":"executor"})");
  const Error no{Errc::not_allowed, "not that one"};
  node_.send(FrameType::error, node_.questions[1].header.request, wire::to_json(wire::to_message(no)));
  until([&] { return second->has_value(); });
  EXPECT_FALSE(first->has_value());
  EXPECT_EQ((*second)->error().detail, "not that one");
  node_.send(FrameType::gears_data, node_.questions[0].header.request, R"({"term":9})");
  until([&] { return first->has_value(); });
  EXPECT_EQ((*first)->value().at("term").to_number<int>(), 9);
  ASSERT_TRUE(open());
  EXPECT_EQ(node_.came, 1) << "it stays open";
}

TEST_F(HostStreamTest, ARefusalIsTold) {
  node_.refusal = "gears.leaders there does not name it";
  const Outcome<void> opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::not_allowed);
  EXPECT_EQ(opened.error().detail, node_.refusal);
  const Result asked = ask(1);
  until([&] { return asked->has_value(); });
  EXPECT_EQ((*asked)->error().code, Errc::closed) << "nothing is asked of a host that is not open";
}

TEST_F(HostStreamTest, TheEndOfTheStreamIsTheAnswerToAllAndTheNextOneIsOpenedAnew) {
  ASSERT_TRUE(open());
  const Result first = ask(1), second = ask(2);
  until([&] { return node_.questions.size() == 2; });
  const Error why{Errc::not_allowed, "not any more"};
  node_.send(FrameType::error, {}, wire::to_json(wire::to_message(why)));
  until([&] { return first->has_value() && second->has_value(); });
  EXPECT_EQ((*first)->error().detail, "not any more");
  EXPECT_EQ((*second)->error().detail, "not any more");
  ASSERT_TRUE(open());
  EXPECT_EQ(node_.came, 2);
  const Result third = ask(3);
  until([&] { return node_.questions.size() == 3; });
  node_.hang_up();
  until([&] { return third->has_value(); });
  EXPECT_EQ((*third)->error().code, Errc::closed);
}

TEST_F(HostStreamTest, AQuestionWaitsNoLongerThanItMayAndItsLateAnswerIsNobodys) {
  ASSERT_TRUE(open());
  const Result late = ask(1, milliseconds(20));
  until([&] { return late->has_value(); });
  EXPECT_EQ((*late)->error().code, Errc::timeout);
  until([&] { return node_.questions.size() == 1; });
  const Result next = ask(2);
  until([&] { return node_.questions.size() == 2; });
  node_.send(FrameType::gears_data, node_.questions[0].header.request, R"({"of":1})");
  node_.send(FrameType::gears_data, node_.questions[1].header.request, R"({"of":2})");
  until([&] { return next->has_value(); });
  EXPECT_EQ((*next)->value().at("of").to_number<int>(), 2);
}

TEST_F(HostStreamTest, ItIsRenewedBeforeItsTicketIsOver) {
  node_.renew_ms = -5;  // a second is the least
  ASSERT_TRUE(open());
  until([&, begun = Clock::now()] { return Clock::now() > after(begun, milliseconds(1'001)); });
  const Result asked = ask(1);  // over the one before, just now
  until([&] { return node_.questions.size() == 1; });
  const Result also = ask(2);
  node_.send(FrameType::gears_data, node_.questions[0].header.request, R"({"of":1})");
  ASSERT_TRUE(open());
  EXPECT_EQ(node_.came, 2);
  until([&] { return asked->has_value(); });
  EXPECT_TRUE(**asked);
  EXPECT_FALSE(also->has_value()) << "what is under way is not lost";
  node_.refusal = "no more";
  until([&, begun = Clock::now()] { return Clock::now() > after(begun, milliseconds(1'001)); });
  EXPECT_TRUE(open()) << "while it cannot be renewed the one before goes on";
  EXPECT_EQ(node_.came, 3);
}

TEST_F(HostStreamTest, TooManyQuestionsAtOnceAreRefused) {
  ASSERT_TRUE(open());
  std::vector<Result> all;
  for (std::size_t i = 0; i < HostStream::kMostAtOnce; ++i) all.push_back(ask(i));
  until([&] { return node_.questions.size() == HostStream::kMostAtOnce; });
  const Result more = ask(99);
  until([&] { return more->has_value(); });
  EXPECT_EQ((*more)->error().code, Errc::overloaded);
}

}  // namespace
}  // namespace gearbox::scheduler
