// secure_channel.hpp: Noise-NK in shape, from libsodium's primitives; no I/O, no clock, no thread of its own.
//
//   client → server   kHelloBytes:  "GBX1", lowest and highest version (u16le each), ephemeral X25519 key
//   server → client   kReplyBytes:  chosen version (u16le), ephemeral key, secretstream header, sealed h
//   client → server   kFinishBytes: secretstream header, sealed h
//   then records both ways
// h = generichash(name ‖ version ‖ server's static key ‖ all handshake bytes up to the server's ephemeral key); traffic
// keys = generichash keyed with (e×s ‖ e×e) over h and a direction (docs/protocol.md has the bytes). Each side proves h
// in its first sealed record: a wrong static key, a changed version or any changed byte shows there, before the client
// has sent anything secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::link {

inline constexpr std::size_t kHelloBytes = 4 + 2 + 2 + 32;
inline constexpr std::size_t kSealBytes = 17;  // added to each record by secretstream
inline constexpr std::size_t kReplyBytes = 2 + 32 + 24 + 32 + kSealBytes;
inline constexpr std::size_t kFinishBytes = 24 + 32 + kSealBytes;
inline constexpr std::uint16_t kLowestVersion = 1;
inline constexpr std::uint16_t kHighestVersion = 1;

/// Both directions of one established channel. Not copyable; one strand. Secrets are wiped on destruction.
class SecureChannel {
 public:
  SecureChannel(SecureChannel&&) noexcept;
  SecureChannel& operator=(SecureChannel&&) noexcept;
  ~SecureChannel();

  /// What both sides agreed on; signatures that prove an identity are made over it. 32 bytes.
  ByteView h() const;

  /// Seals `plain` into `out`, which has plain.size() + kSealBytes. `plain` may be scattered: first ‖ second.
  /// `additional` is authenticated, not sent. `last` marks the end of this direction.
  void seal(ByteView first, ByteView second, ByteView additional, ByteSpan out, bool last = false);

  /// Opens one record into `out` (sealed.size() - kSealBytes), in the order in which they were sealed.
  /// Errors: decrypt_failed (altered, repeated, reordered, other additional data): the channel is dead from then on.
  /// closed: the peer's end mark was met earlier.
  Outcome<void> open(ByteView sealed, ByteView additional, ByteSpan out);

  /// The same records piece by piece, bit for bit, so that nobody has to hold a big one whole: begin, any number of
  /// parts of any size (out as long as in; the same memory is allowed), end. `head` is the record's first byte, `tail`
  /// its last 16. One record per direction at a time. What open_part() gives is not to be trusted before open_end() has
  /// agreed.
  void seal_begin(ByteView additional, std::byte& head, bool last = false);
  void seal_part(ByteView plain, ByteSpan out);
  void seal_end(std::span<std::byte, kSealBytes - 1> tail);
  /// Errors: closed, decrypt_failed (the channel is dead).
  Outcome<void> open_begin(ByteView additional, std::byte head);
  void open_part(ByteView sealed, ByteSpan out);
  /// Errors: decrypt_failed.
  Outcome<void> open_end(std::span<const std::byte, kSealBytes - 1> tail);

  /// True when the peer has marked its end: only then was nothing cut off.
  bool peer_finished() const;

 private:
  friend class ClientHandshake;
  friend class ServerHandshake;
  struct State;
  explicit SecureChannel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class ClientHandshake {
 public:
  /// `server_key`: the pinned X25519 public key.
  explicit ClientHandshake(const std::array<std::byte, 32>& server_key);
  ~ClientHandshake();
  std::array<std::byte, kHelloBytes> hello() const;
  struct Done {
    SecureChannel channel;
    std::array<std::byte, kFinishBytes> finish;  // to be sent first
  };
  /// Do the first bytes of a reply (any number) look like one? A peer of another protocol is told apart before it has
  /// sent a whole reply's worth. Errors: not_gearbox; unsupported_version.
  static Outcome<void> look_at(ByteView first_bytes);
  /// Errors: wrong_server_key when the server cannot prove the pinned key (or a byte was changed on the way: the two
  /// cannot be told apart); unsupported_version; not_gearbox.
  Outcome<Done> read_reply(ByteView reply);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class ServerHandshake {
 public:
  explicit ServerHandshake(const ChannelKeys& keys);  // keeps a reference: keys outlive it
  ~ServerHandshake();
  /// Do the first bytes of a hello (any number) look like one? Errors: not_gearbox (see read_hello).
  static Outcome<void> look_at(ByteView first_bytes);
  /// Errors: not_gearbox (what the first bytes look like is said: "TLS", "HTTP"); unsupported_version.
  Outcome<std::array<std::byte, kReplyBytes>> read_hello(ByteView hello);
  /// What to send a client whose versions we do not speak, before closing: it names ours. Nobody can be sure who sent
  /// it.
  static std::array<std::byte, kReplyBytes> refusal();
  /// Errors: decrypt_failed (altered, replayed, or made for another server key).
  Outcome<SecureChannel> read_finish(ByteView finish);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::link
