// The gate that schedulers of other hosts come through: who is let in, and until when.
#include "node/gear_streams.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/object.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "gear_facts/places.hpp"
#include "serving/control.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::node {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using net::FrameStream;
using wire::FrameType;

constexpr milliseconds kWithin{20'000};

class GearStreamsTest : public ::testing::Test {
 protected:
  /// One leader's end of a stream, and what became of the other end.
  struct Leader {
    std::shared_ptr<FrameStream> stream;
    std::optional<Outcome<void>> end;
    std::vector<wire::Frame> heard;
  };

  GearStreamsTest() {
    state_.root = folder_.path();
    std::filesystem::create_directories(state_.run());
    GearStreams::Setup setup;
    setup.io = &io_;
    setup.state = state_;
    setup.node = "south";
    setup.leaders = [this] { return leaders_; };
    setup.still_good = [this](const session::Identity&) -> Outcome<void> {
      if (expired_) return Error{Errc::expired_ticket, {}};
      return done();
    };
    setup.time_left = [](const wire::Ticket&) { return milliseconds(60'000); };
    streams_ = std::make_shared<GearStreams>(std::move(setup));
    const auto answer = [this](std::string_view command, const json::object& asked) -> Outcome<json::object> {
      asked_ = std::string(command) + (asked.contains("to") ? " to" : "");
      return json::object{{"sequence", 7}};
    };
    observer_ = serving::ControlServer::start(io_.get_executor(), gear_facts::observer_socket(state_), answer).value();
  }
  ~GearStreamsTest() override {
    for (const auto& leader : all_) leader->stream->close();
    observer_.reset();
    io_.restart();
    io_.poll();
  }

  std::shared_ptr<Leader> come(const std::string& name, bool with_gears = true) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    auto leader = std::make_shared<Leader>();
    leader->stream = FrameStream::adopt(io_.get_executor(), pair[0], "node").value();
    auto far = FrameStream::adopt(io_.get_executor(), pair[1], name).value();
    session::Identity who;
    who.ticket.user = name;
    who.ticket.gears = with_gears;
    who.ticket.ranks = with_gears ? "" : "story";
    asio::co_spawn(io_, serve(streams_, far, who, leader), asio::detached);
    asio::co_spawn(io_, listen(leader), asio::detached);
    all_.push_back(leader);
    return leader;
  }
  static asio::awaitable<void> serve(std::shared_ptr<GearStreams> streams, std::shared_ptr<FrameStream> far,
                                     session::Identity who, std::shared_ptr<Leader> leader) {
    Outcome<void> end = co_await GearStreams::serve(streams, far, "{}", std::move(who));
    far->close();
    leader->end.emplace(std::move(end));
  }
  static asio::awaitable<void> listen(std::shared_ptr<Leader> leader) {
    for (;;) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(leader->stream, kWithin);
      if (!frame) co_return;
      leader->heard.push_back(std::move(frame).value());
    }
  }
  void ask(const std::shared_ptr<Leader>& leader, const std::string& text, std::uint8_t number) {
    asio::co_spawn(io_, write(leader, text, number), asio::detached);
  }
  static asio::awaitable<void> write(std::shared_ptr<Leader> leader, std::string text, std::uint8_t number) {
    wire::FrameHeader header;
    header.type = FrameType::gears_data;
    header.request.bytes[0] = std::byte(number);
    EXPECT_TRUE(co_await FrameStream::write_frame(leader->stream, header, std::move(text), ByteView(), kWithin));
  }
  void until(const std::function<bool()>& what) {
    io_.restart();
    const Instant deadline = after(Clock::now(), kWithin);
    while (!what() && Clock::now() < deadline) io_.run_one_for(milliseconds(100));
    ASSERT_TRUE(what());
  }

  testing::TempDir folder_;
  asio::io_context io_;
  config::StateDir state_;
  std::vector<std::string> leaders_{"north"};
  bool expired_ = false;
  std::shared_ptr<GearStreams> streams_;
  std::unique_ptr<serving::ControlServer> observer_;
  std::string asked_;
  std::vector<std::shared_ptr<Leader>> all_;
};

constexpr const char* kSnapshot = R"({"to":"observer","command":"snapshot"})";

TEST_F(GearStreamsTest, ALeaderThatIsNamedAsksAndIsAnsweredUnderItsQuestionsNumber) {
  const auto north = come("north");
  until([&] { return north->heard.size() == 1; });
  EXPECT_EQ(north->heard[0].header.type, FrameType::gears_open);
  EXPECT_EQ(north->heard[0].json, R"({"renew_ms":30000})");
  ask(north, kSnapshot, 5);
  until([&] { return north->heard.size() == 2; });
  EXPECT_EQ(north->heard[1].header.type, FrameType::gears_data);
  EXPECT_EQ(north->heard[1].header.request.bytes[0], std::byte(5));
  EXPECT_EQ(north->heard[1].json, R"({"sequence":7})");
  EXPECT_EQ(asked_, "snapshot");
  ask(north, R"({"to":"observer","command":"config"})", 6);
  until([&] { return north->heard.size() == 3; });
  EXPECT_EQ(north->heard[2].header.type, FrameType::error);
  EXPECT_EQ(north->heard[2].header.request.bytes[0], std::byte(6));
  EXPECT_EQ(asked_, "snapshot") << "it has not come as far as the observer";
  ask(north, R"({"to":"executor","command":"groups"})", 7);  // nobody is there
  until([&] { return north->heard.size() == 4; });
  EXPECT_EQ(north->heard[3].header.type, FrameType::error);
  EXPECT_FALSE(north->end.has_value()) << "and the stream goes on";
}

TEST_F(GearStreamsTest, WhoIsNotNamedOrHasAnotherTicketIsRefused) {
  const auto west = come("west");
  until([&] { return west->end.has_value(); });
  EXPECT_EQ(west->end->error().code, Errc::not_allowed);
  EXPECT_EQ(west->end->error().detail,
            "node 'south' does not let 'west' decide on its groups: gears.leaders there does not name it");
  const auto ranks = come("north", false);
  until([&] { return ranks->end.has_value(); });
  EXPECT_EQ(ranks->end->error().code, Errc::not_allowed);
  EXPECT_TRUE(west->heard.empty());
}

TEST_F(GearStreamsTest, TheRightIsLookedAtWithEveryQuestion) {
  const auto north = come("north");
  until([&] { return north->heard.size() == 1; });
  leaders_.clear();
  ask(north, kSnapshot, 1);
  until([&] { return north->end.has_value(); });
  EXPECT_EQ(north->end->error().code, Errc::not_allowed);
  EXPECT_EQ(asked_, "");
  leaders_ = {"north"};
  const auto again = come("north");
  until([&] { return again->heard.size() == 1; });
  expired_ = true;
  ask(again, kSnapshot, 1);
  until([&] { return again->end.has_value(); });
  EXPECT_EQ(again->end->error().code, Errc::expired_ticket);
  EXPECT_EQ(asked_, "");
}

TEST_F(GearStreamsTest, ALeaderHasTwoStreamsAtMostAndAThirdEndsTheFirst) {
  const auto first = come("north");
  until([&] { return first->heard.size() == 1; });
  leaders_ = {"north", "west"};
  const auto other = come("west");
  const auto second = come("north");
  until([&] { return second->heard.size() == 1 && other->heard.size() == 1; });
  EXPECT_FALSE(first->end.has_value()) << "it may have something to answer";
  const auto third = come("north");
  until([&] { return first->end.has_value() && third->heard.size() == 1; });
  EXPECT_FALSE(second->end.has_value());
  EXPECT_FALSE(other->end.has_value());
}

}  // namespace
}  // namespace gearbox::node
