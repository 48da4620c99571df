#include <algorithm>

#include "link/bytes_cast.hpp"
#include "link/handshake.hpp"

namespace gearbox::link {

struct ClientHandshake::State {
  Ephemeral ephemeral;
  Key server_key;
  std::array<std::byte, kHelloBytes> hello{};
};

ClientHandshake::ClientHandshake(const std::array<std::byte, 32>& server_key) {
  crypto_ready();
  state_ = std::make_unique<State>();
  state_->server_key = server_key;
  auto& hello = state_->hello;
  std::copy(kMagic.begin(), kMagic.end(), hello.begin());
  store_le(&hello[kHelloLowest], kLowestVersion);
  store_le(&hello[kHelloHighest], kHighestVersion);
  std::copy(state_->ephemeral.public_key.begin(), state_->ephemeral.public_key.end(), &hello[kHelloKey]);
}
ClientHandshake::~ClientHandshake() = default;

std::array<std::byte, kHelloBytes> ClientHandshake::hello() const {
  return state_->hello;
}

Outcome<void> ClientHandshake::look_at(ByteView first_bytes) {
  if (first_bytes.size() < 2) return done();
  const auto version = load_le<std::uint16_t>(first_bytes.data());
  if (version >= kLowestVersion && version <= kHighestVersion) return done();
  if (version != 0) return stranger("the server", first_bytes);
  if (first_bytes.size() < 6) return done();  // a refusal; its version numbers are still to come
  return Error{Errc::unsupported_version,
               "the server speaks protocol versions " + std::to_string(load_le<std::uint16_t>(&first_bytes[2])) +
                   " to " + std::to_string(load_le<std::uint16_t>(&first_bytes[4])) + ", this program " +
                   std::to_string(kLowestVersion) + " to " + std::to_string(kHighestVersion)};
}

Outcome<ClientHandshake::Done> ClientHandshake::read_reply(ByteView reply) {
  BOOST_OUTCOME_TRY(look_at(reply));
  if (reply.size() != kReplyBytes) return stranger("the server", reply);
  const auto wrong_key = [] {
    return Error{Errc::wrong_server_key,
                 "the server does not hold the expected key, or its answer was changed on the way"};
  };
  const auto version = load_le<std::uint16_t>(reply.data());
  SharedSecret secret;
  if (!secret.set_static(state_->ephemeral.secret, state_->server_key) ||
      !secret.set_ephemeral(state_->ephemeral.secret, reply.subspan(kReplyKey, 32))) {
    return wrong_key();
  }
  auto channel = std::make_unique<SecureChannel::State>();
  channel->h = handshake_hash(version, state_->server_key, state_->hello, reply.first(kReplyOpenBytes));

  Key key = secret.traffic_key(channel->h, Direction::server_to_client);
  const int header_ok = crypto_secretstream_xchacha20poly1305_init_pull(
      &channel->opening, raw(reply.subspan(kReplyStream, kStreamHeaderBytes)), raw(key));
  key = secret.traffic_key(channel->h, Direction::client_to_server);
  Done result{SecureChannel(std::move(channel)), {}};
  SecureChannel::State& made = *result.channel.state_;
  crypto_secretstream_xchacha20poly1305_init_push(&made.sealing, raw(result.finish), raw(key));
  wipe(key);

  Key confirmed{};
  if (header_ok != 0 || !result.channel.open(reply.subspan(kReplySealed), {}, confirmed) ||
      sodium_memcmp(confirmed.data(), made.h.data(), confirmed.size()) != 0) {
    return wrong_key();
  }
  result.channel.seal(made.h, {}, {}, ByteSpan(result.finish).subspan(kFinishSealed));
  return result;
}

}  // namespace gearbox::link
