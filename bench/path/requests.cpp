#include "requests.hpp"

#include "gearbox/link/upload.hpp"

namespace gearbox::bench {

namespace {

constexpr std::size_t kSmallBytes = 64;
constexpr std::size_t kWarm = 32;       // connections before the first look at the memory
constexpr std::size_t kEach = 4096;     // from one address; far below the ports that it has
constexpr std::size_t kBusyEvery = 16;  // one connection in so many has requests
constexpr int kRequestsEach = 4;

/// Seals request and acknowledgement, so that nothing but sending is left.
struct Small {
  explicit Small(Client& client) {
    const Bytes content(kSmallBytes, std::byte{7});
    link::Digest digest;
    digest.update(content);
    wire::InputSpec input;
    input.tensor = {"image", wire::DType::uint8, {kSmallBytes}, kSmallBytes};
    input.wire_bytes = kSmallBytes;
    wire::Submit submit;
    submit.task = "look";
    submit.inputs = {input};
    submit.digest = digest.hex();
    submit.wire_bytes = kSmallBytes;
    wire::FrameHeader header;
    header.type = wire::FrameType::submit;
    header.flags = wire::kInlinePayload;
    header.request = link::random_request_id();
    client.seal(header, wire::to_json(submit), content, request);
    header.type = wire::FrameType::result_ack;
    header.flags = 0;
    client.seal(header, {}, {}, acknowledgement);
  }
  Bytes request, acknowledgement;
};

Outcome<void> ping(Client& client) {
  wire::FrameHeader header;
  header.type = wire::FrameType::ping;
  Bytes sealed;
  client.seal(header, {}, {}, sealed);
  BOOST_OUTCOME_TRY(client.send(sealed));
  BOOST_OUTCOME_TRY(client.receive(wire::FrameType::pong));
  return done();
}

std::string address_of(std::size_t connection) {
  return "127.0.0." + std::to_string(2 + connection / kEach);
}

}  // namespace

Outcome<void> small_request(Client& client) {
  const Small small(client);
  BOOST_OUTCOME_TRY(client.send(small.request));
  BOOST_OUTCOME_TRY(client.receive(wire::FrameType::result));
  BOOST_OUTCOME_TRY(client.send(small.acknowledgement));
  return done();
}

std::vector<double> small_request_cpu_us(const NodeProcess& node, Client& client, int count) {
  std::vector<double> all;
  double before = node.settled_cpu_us();
  for (int i = 0; i < count; ++i) {
    const Small small(client);
    Outcome<void> sent = client.send(small.request);
    const auto answer = client.receive(wire::FrameType::result);
    if (sent && answer) sent = client.send(small.acknowledgement);
    if (!sent || !answer) return {};
    const double now = node.settled_cpu_us();
    all.push_back(now - before);
    before = now;
  }
  return all;
}

Outcome<Held> hold(const NodeProcess& node, std::size_t connections) {
  Held held;
  std::vector<Client> warm, clients;
  clients.reserve(connections);
  for (std::size_t i = 0; i < kWarm; ++i) {
    BOOST_OUTCOME_TRY(auto client, Client::log_in(node, address_of(0)));
    warm.push_back(std::move(client));
    for (int k = 0; k < kRequestsEach; ++k) {
      BOOST_OUTCOME_TRY(small_request(warm.back()));
    }
  }
  node.settled_cpu_us();
  const double before = node.resident_kb();
  for (std::size_t i = 0; i < connections; ++i) {
    BOOST_OUTCOME_TRY(auto client, Client::log_in(node, address_of(i)));
    clients.push_back(std::move(client));
    if (i % kBusyEvery != 0) continue;
    for (int k = 0; k < kRequestsEach; ++k, ++held.requests) {  // on any of those that are there by now
      BOOST_OUTCOME_TRY(small_request(clients[(i * 7919 + static_cast<std::size_t>(k) * 104729) % clients.size()]));
    }
  }
  node.settled_cpu_us();
  held.each_kb = (node.resident_kb() - before) / static_cast<double>(connections);
  for (Client& client : clients) {
    if (ping(client)) ++held.connections;
  }
  return held;
}

}  // namespace gearbox::bench
