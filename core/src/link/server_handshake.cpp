#include <algorithm>

#include "link/bytes_cast.hpp"
#include "link/handshake.hpp"
#include "link/invariant.hpp"

namespace gearbox::link {

struct ServerHandshake::State {
  explicit State(const ChannelKeys& own) : keys(own) {}
  const ChannelKeys& keys;
  Key client_traffic_key{};
  std::unique_ptr<SecureChannel::State> channel;
  ~State() { wipe(client_traffic_key); }
};

ServerHandshake::ServerHandshake(const ChannelKeys& keys) {
  crypto_ready();
  state_ = std::make_unique<State>(keys);
}
ServerHandshake::~ServerHandshake() = default;

Outcome<void> ServerHandshake::look_at(ByteView first_bytes) {
  const std::size_t common = std::min(first_bytes.size(), kMagic.size());
  if (std::equal(first_bytes.begin(), first_bytes.begin() + static_cast<std::ptrdiff_t>(common), kMagic.begin()))
    return done();
  return stranger("the peer", first_bytes);
}

std::array<std::byte, kReplyBytes> ServerHandshake::refusal() {
  std::array<std::byte, kReplyBytes> reply{};  // version 0 is none
  store_le(&reply[2], kLowestVersion);
  store_le(&reply[4], kHighestVersion);
  return reply;
}

Outcome<std::array<std::byte, kReplyBytes>> ServerHandshake::read_hello(ByteView hello) {
  BOOST_OUTCOME_TRY(look_at(hello));
  if (hello.size() != kHelloBytes) return stranger("the peer", hello);
  const auto lowest = load_le<std::uint16_t>(&hello[kHelloLowest]);
  const auto highest = load_le<std::uint16_t>(&hello[kHelloHighest]);
  const std::uint16_t version = std::min(highest, kHighestVersion);
  if (lowest > highest || version < std::max(lowest, kLowestVersion)) {
    return Error{Errc::unsupported_version,
                 "the client speaks protocol versions " + std::to_string(lowest) + " to " + std::to_string(highest) +
                     ", this server " + std::to_string(kLowestVersion) + " to " + std::to_string(kHighestVersion)};
  }
  const ByteView client_key = hello.subspan(kHelloKey, 32);
  const Ephemeral ephemeral;
  SharedSecret secret;
  if (!secret.set_static(state_->keys.secret_key, client_key) || !secret.set_ephemeral(ephemeral.secret, client_key)) {
    return Error{Errc::not_gearbox, "the peer's ephemeral key is of low order"};
  }
  std::array<std::byte, kReplyBytes> reply{};
  store_le(reply.data(), version);
  std::copy(ephemeral.public_key.begin(), ephemeral.public_key.end(), &reply[kReplyKey]);

  auto state = std::make_unique<SecureChannel::State>();
  state->h = handshake_hash(version, state_->keys.public_key, hello, ByteView(reply).first(kReplyOpenBytes));
  state_->client_traffic_key = secret.traffic_key(state->h, Direction::client_to_server);
  Key key = secret.traffic_key(state->h, Direction::server_to_client);
  crypto_secretstream_xchacha20poly1305_init_push(&state->sealing, raw(reply) + kReplyStream, raw(key));
  wipe(key);
  SecureChannel channel(std::move(state));
  channel.seal(channel.h(), {}, {}, ByteSpan(reply).subspan(kReplySealed));
  state_->channel = std::move(channel.state_);
  return reply;
}

Outcome<SecureChannel> ServerHandshake::read_finish(ByteView finish) {
  if (!state_->channel) broken_invariant("a handshake is finished before its hello was read, or twice");
  SecureChannel channel(std::move(state_->channel));
  Key confirmed{};
  if (finish.size() != kFinishBytes ||
      crypto_secretstream_xchacha20poly1305_init_pull(&channel.state_->opening, raw(finish),
                                                      raw(state_->client_traffic_key)) != 0 ||
      !channel.open(finish.subspan(kFinishSealed), {}, confirmed) ||
      sodium_memcmp(confirmed.data(), channel.h().data(), confirmed.size()) != 0) {
    return Error{Errc::decrypt_failed, "the client's proof is altered, replayed or made for another server key"};
  }
  return channel;
}

}  // namespace gearbox::link
