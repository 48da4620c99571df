// channel_state.hpp: what a SecureChannel consists of; the handshakes make it.
#pragma once

#include <sodium.h>

#include <array>
#include <memory>

#include "gearbox/link/secure_channel.hpp"
#include "link/record_pieces.hpp"

namespace gearbox::link {

using StreamState = crypto_secretstream_xchacha20poly1305_state;
inline constexpr std::size_t kStreamHeaderBytes = 24;
static_assert(crypto_secretstream_xchacha20poly1305_HEADERBYTES == kStreamHeaderBytes);
static_assert(crypto_secretstream_xchacha20poly1305_ABYTES == kSealBytes);

struct SecureChannel::State {
  StreamState sealing;
  StreamState opening;
  std::array<std::byte, 32> h{};
  bool dead = false;  // a record did not open: nothing after it can be trusted
  bool peer_finished = false;
  std::unique_ptr<RecordPieces> seal_pieces;  // while a record is under way in pieces
  std::unique_ptr<RecordPieces> open_pieces;
  ~State() {
    sodium_memzero(&sealing, sizeof sealing);
    sodium_memzero(&opening, sizeof opening);
  }
};

}  // namespace gearbox::link
