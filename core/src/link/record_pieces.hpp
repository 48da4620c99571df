// record_pieces.hpp: one secretstream record in pieces. crypto_secretstream_xchacha20poly1305_push and _pull want a
// whole record in one piece of memory; a megabyte for each slow peer is too much of it. This is the same construction,
// put together from libsodium's ChaCha20 and Poly1305, and a test holds it against libsodium's, bit for bit.
#pragma once

#include <sodium.h>

#include <array>
#include <cstdint>
#include <span>

#include "gearbox/base/bytes.hpp"

namespace gearbox::link {

inline constexpr std::size_t kMacBytes = 16;

/// Lives from a record's first byte to its last; the stream's state stays where it is and moves on in finish().
class RecordPieces {
 public:
  RecordPieces(crypto_secretstream_xchacha20poly1305_state& stream, ByteView additional);
  ~RecordPieces();
  RecordPieces(const RecordPieces&) = delete;
  RecordPieces& operator=(const RecordPieces&) = delete;

  std::byte seal_head(unsigned char tag);
  void open_head(std::byte head);
  void seal(ByteView plain, ByteSpan out);
  void open(ByteView sealed, ByteSpan out);

  /// The record's authentication code; asked for once, after all parts.
  std::array<std::byte, kMacBytes> mac();
  /// Moves the stream on to the next record; to be called only when the code is right.
  void finish(const std::array<std::byte, kMacBytes>& mac);
  unsigned char tag() const { return tag_; }

 private:
  void crypt(ByteView in, ByteSpan out);
  void authenticate(ByteView bytes);

  crypto_secretstream_xchacha20poly1305_state& stream_;
  crypto_onetimeauth_poly1305_state auth_;
  std::array<std::byte, 64> key_stream_{};  // the rest of a block that a part used only the front of
  std::size_t key_stream_used_ = 64;
  std::uint32_t next_block_ = 2;  // 0 made the Poly1305 key, 1 sealed the tag
  std::uint64_t additional_bytes_;
  std::uint64_t plain_bytes_ = 0;
  unsigned char tag_ = 0;
};

}  // namespace gearbox::link
