// ticket_fixture.hpp: a node whose devices show tickets that the test has made.
#pragma once

#include <map>
#include <string>

#include "core/session/node_fixture.hpp"

namespace gearbox::session {

class TicketFixture : public NodeFixture {
 protected:
  TicketFixture() {
    service_.channel_keys = &keys_;
    service_.check_ticket = [this](std::string_view ticket, const PublicKey&) -> Outcome<wire::Ticket> {
      return tickets_.at(std::string(ticket));
    };
  }
  /// Devices that show the ticket NAME are of that tenant.
  wire::Ticket& ticket(const std::string& name, std::uint32_t tenant, std::uint32_t weight = 1) {
    wire::Ticket made;
    made.user = name;
    made.tenant = tenant;
    made.weight = weight;
    made.tasks = {"*"};
    return tickets_[name] = made;
  }
  DevicePtr log_in_as(const std::string& ticket, bool keep = false) {
    const DevicePtr device = connect(DeviceSession::Door::sealed);
    asio::co_spawn(io_, seal(device, keys_.public_key), asio::detached);
    EXPECT_TRUE(until([&] { return !device->stream->h().empty(); }));
    wire::Hello hello;
    hello.role = "device";
    hello.ticket = ticket;
    hello.keep = keep;
    link::sign_hello(link::make_signing_keys(), device->stream->h(), hello);
    send(device, wire::FrameType::hello, {}, wire::to_json(hello));
    EXPECT_EQ(next(device).header.type, wire::FrameType::hello_ok);
    return device;
  }

  link::ChannelKeys keys_ = link::make_channel_keys();
  std::map<std::string, wire::Ticket> tickets_;
};

}  // namespace gearbox::session
