// handshake.hpp: what both sides of the handshake have in common: its bytes, h, and the keys that follow from it.
#pragma once

#include <sodium.h>

#include <array>
#include <memory>

#include "gearbox/link/secure_channel.hpp"
#include "link/channel_state.hpp"

namespace gearbox::link {

inline constexpr std::array<std::byte, 4> kMagic{std::byte{'G'}, std::byte{'B'}, std::byte{'X'}, std::byte{'1'}};

// Where the parts lie in hello, reply and finish.
inline constexpr std::size_t kHelloLowest = 4;
inline constexpr std::size_t kHelloHighest = 6;
inline constexpr std::size_t kHelloKey = 8;
inline constexpr std::size_t kReplyKey = 2;
inline constexpr std::size_t kReplyOpenBytes = 2 + 32;  // what h covers of the reply
inline constexpr std::size_t kReplyStream = kReplyOpenBytes;
inline constexpr std::size_t kReplySealed = kReplyStream + kStreamHeaderBytes;
inline constexpr std::size_t kFinishSealed = kStreamHeaderBytes;
static_assert(kHelloKey + 32 == kHelloBytes && kReplySealed + 32 + kSealBytes == kReplyBytes);
static_assert(kFinishSealed + 32 + kSealBytes == kFinishBytes);

using Key = std::array<std::byte, 32>;

/// An ephemeral pair; wiped on destruction.
struct Ephemeral {
  Ephemeral();
  ~Ephemeral();
  Key public_key;
  Key secret;
};

enum class Direction : std::uint8_t { client_to_server = 1, server_to_client = 2 };

/// e×s ‖ e×e, the key of the traffic keys; wiped on destruction.
class SharedSecret {
 public:
  ~SharedSecret();
  /// Each: false when the peer's key is of low order, which an honest peer's never is.
  bool set_static(const Key& secret, ByteView peer_key);
  bool set_ephemeral(const Key& secret, ByteView peer_key);
  Key traffic_key(ByteView h, Direction direction) const;

 private:
  std::array<std::byte, 64> bytes_{};
};

Key handshake_hash(std::uint16_t version, const Key& server_key, ByteView hello, ByteView reply_open);

/// "TLS", "HTTP", "SSH": what a stranger's first bytes look like; empty when they look like nothing known.
std::string_view looks_like(ByteView first_bytes);
/// not_gearbox, with what it looks like or the bytes themselves.
Error stranger(std::string_view who, ByteView first_bytes);

}  // namespace gearbox::link
