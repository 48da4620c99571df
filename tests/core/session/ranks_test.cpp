// Nodes that come for ranks of a group, or to decide on groups: who is let in, and that nothing else is theirs.
#include "core/session/ticket_fixture.hpp"

namespace gearbox::session {
namespace {

class RankSessions : public TicketFixture {
 protected:
  RankSessions() {
    service_.serve_ranks = [this](std::shared_ptr<net::FrameStream>, const std::string& text, const Identity& who) {
      asked_ = who.ticket.user + " " + who.ticket.ranks + " " + text;
      return refuse();
    };
    service_.serve_gears = [this](std::shared_ptr<net::FrameStream>, const std::string& text, const Identity& who) {
      asked_ = "gears " + who.ticket.user + " " + text;
      return refuse();
    };
    start({"echo"});
  }
  static asio::awaitable<Outcome<void>> refuse() { co_return Error{Errc::unreachable, "nobody lends them"}; }
  /// The answer to its hello.
  wire::Frame come_as(const std::string& role, const std::string& ticket) {
    peer_ = connect(DeviceSession::Door::sealed);
    asio::co_spawn(io_, seal(peer_, keys_.public_key), asio::detached);
    EXPECT_TRUE(until([&] { return !peer_->stream->h().empty(); }));
    wire::Hello hello;
    hello.role = role;
    hello.ticket = ticket;
    link::sign_hello(link::make_signing_keys(), peer_->stream->h(), hello);
    send(peer_, wire::FrameType::hello, {}, wire::to_json(hello));
    return next(peer_);
  }
  void for_ranks(const std::string& name) {
    wire::Ticket& made = ticket(name, 0);
    made.tasks.clear();
    made.ranks = "story";
  }

  void for_gears(const std::string& name) {
    wire::Ticket& made = ticket(name, 0);
    made.tasks.clear();
    made.gears = true;
  }

  DevicePtr peer_;
  std::string asked_;
};

TEST_F(RankSessions, ANodeWithATicketForRanksIsServedAndToldWhyNot) {
  for_ranks("north");
  ASSERT_EQ(come_as("node", "north").header.type, wire::FrameType::hello_ok);
  send(peer_, wire::FrameType::ranks_open, {}, R"({"group":"story"})");
  const wire::Frame answer = next(peer_);
  EXPECT_EQ(answer.header.type, wire::FrameType::error);
  EXPECT_NE(answer.json.find("nobody lends them"), std::string::npos);
  EXPECT_EQ(asked_, R"(north story {"group":"story"})");
}

TEST_F(RankSessions, ItMayUseNoTask) {
  for_ranks("north");
  ASSERT_EQ(come_as("node", "north").header.type, wire::FrameType::hello_ok);
  EXPECT_EQ(error_of(ask(peer_, "echo", some_bytes(10), id_of(1))).code, Errc::not_allowed);
}

TEST_F(RankSessions, ANodeWithADevicesTicketAndADeviceWithANodesAreRefused) {
  for_ranks("north");
  ticket("anna", 1);
  EXPECT_EQ(come_as("node", "anna").header.type, wire::FrameType::error);
  EXPECT_EQ(come_as("device", "north").header.type, wire::FrameType::error);
}

TEST_F(RankSessions, ANodeWithATicketForGearsIsServedAndMayUseNoTask) {
  for_gears("north");
  ASSERT_EQ(come_as("node", "north").header.type, wire::FrameType::hello_ok);
  EXPECT_EQ(error_of(ask(peer_, "echo", some_bytes(10), id_of(1))).code, Errc::not_allowed);
  send(peer_, wire::FrameType::gears_open, {}, "{}");
  EXPECT_NE(next(peer_).json.find("nobody lends them"), std::string::npos);
  EXPECT_EQ(asked_, "gears north {}");
}

TEST_F(RankSessions, ADeviceWithATicketForGearsIsRefused) {
  for_gears("north");
  EXPECT_EQ(come_as("device", "north").header.type, wire::FrameType::error);
}

TEST_F(RankSessions, NobodyIsServedBeforeAHello) {
  const DevicePtr stranger = connect(DeviceSession::Door::local);
  asio::co_spawn(io_, listen(stranger), asio::detached);
  send(stranger, wire::FrameType::ranks_open, {}, R"({"group":"story"})");
  EXPECT_EQ(next(stranger).header.type, wire::FrameType::error);
  EXPECT_EQ(asked_, "");
}

}  // namespace
}  // namespace gearbox::session
