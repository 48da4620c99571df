#include "link/record_pieces.hpp"

#include <algorithm>

#include "gearbox/link/keys.hpp"
#include "link/bytes_cast.hpp"

namespace gearbox::link {

namespace {
constexpr std::array<std::byte, 16> kZeros{};
constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kCounterBytes = 4;  // the nonce is a counter and eight bytes that the codes are mixed into
constexpr std::size_t kMixedBytes = 8;
static_assert(crypto_onetimeauth_poly1305_BYTES == kMacBytes);
static_assert(crypto_secretstream_xchacha20poly1305_ABYTES == kMacBytes + 1);
static_assert(sizeof(crypto_secretstream_xchacha20poly1305_state::nonce) == kCounterBytes + kMixedBytes);
}  // namespace

RecordPieces::RecordPieces(crypto_secretstream_xchacha20poly1305_state& stream, ByteView additional)
    : stream_(stream), additional_bytes_(additional.size()) {
  std::array<std::byte, kBlockBytes> block;
  crypto_stream_chacha20_ietf(raw(block), block.size(), stream_.nonce, stream_.k);
  crypto_onetimeauth_poly1305_init(&auth_, raw(block));
  wipe(block);
  authenticate(additional);
  authenticate(ByteView(kZeros).first((16 - additional.size() % 16) % 16));
}

RecordPieces::~RecordPieces() {
  wipe(key_stream_);
  sodium_memzero(&auth_, sizeof auth_);
}

void RecordPieces::authenticate(ByteView bytes) {
  crypto_onetimeauth_poly1305_update(&auth_, raw(bytes), bytes.size());
}

std::byte RecordPieces::seal_head(unsigned char tag) {
  tag_ = tag;
  std::array<std::byte, kBlockBytes> block{};
  block[0] = static_cast<std::byte>(tag);
  crypto_stream_chacha20_ietf_xor_ic(raw(block), raw(block), block.size(), stream_.nonce, 1, stream_.k);
  authenticate(block);
  return block[0];
}

void RecordPieces::open_head(std::byte head) {
  std::array<std::byte, kBlockBytes> block{};
  block[0] = head;
  crypto_stream_chacha20_ietf_xor_ic(raw(block), raw(block), block.size(), stream_.nonce, 1, stream_.k);
  tag_ = std::to_integer<unsigned char>(block[0]);
  block[0] = head;
  authenticate(block);
}

void RecordPieces::crypt(ByteView in, ByteSpan out) {
  plain_bytes_ += in.size();
  const std::size_t begun = std::min(in.size(), kBlockBytes - key_stream_used_);
  for (std::size_t i = 0; i < begun; ++i) out[i] = in[i] ^ key_stream_[key_stream_used_ + i];
  key_stream_used_ += begun;
  in = in.subspan(begun);
  out = out.subspan(begun);

  const std::size_t whole = in.size() / kBlockBytes * kBlockBytes;
  if (whole != 0) {
    crypto_stream_chacha20_ietf_xor_ic(raw(out), raw(in), whole, stream_.nonce, next_block_, stream_.k);
    next_block_ += static_cast<std::uint32_t>(whole / kBlockBytes);
    in = in.subspan(whole);
    out = out.subspan(whole);
  }
  if (in.empty()) return;
  key_stream_ = {};
  crypto_stream_chacha20_ietf_xor_ic(raw(key_stream_), raw(key_stream_), kBlockBytes, stream_.nonce, next_block_++,
                                     stream_.k);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] ^ key_stream_[i];
  key_stream_used_ = in.size();
}

void RecordPieces::seal(ByteView plain, ByteSpan out) {
  crypt(plain, out);
  authenticate(out.first(plain.size()));
}

void RecordPieces::open(ByteView sealed, ByteSpan out) {
  authenticate(sealed);
  crypt(sealed, out);
}

std::array<std::byte, kMacBytes> RecordPieces::mac() {
  // libsodium pads by (16 - 64 + n) % 16 zeros, that is n % 16: an oddity that is part of the format.
  authenticate(ByteView(kZeros).first(plain_bytes_ % 16));
  std::array<std::byte, 16> lengths;
  store_le(&lengths[0], additional_bytes_);
  store_le(&lengths[8], kBlockBytes + plain_bytes_);
  authenticate(lengths);
  std::array<std::byte, kMacBytes> code;
  crypto_onetimeauth_poly1305_final(&auth_, raw(code));
  return code;
}

void RecordPieces::finish(const std::array<std::byte, kMacBytes>& code) {
  for (std::size_t i = 0; i < kMixedBytes; ++i) {
    stream_.nonce[kCounterBytes + i] =
        static_cast<unsigned char>(stream_.nonce[kCounterBytes + i] ^ std::to_integer<unsigned char>(code[i]));
  }
  sodium_increment(stream_.nonce, kCounterBytes);
  const bool rekey = (tag_ & crypto_secretstream_xchacha20poly1305_TAG_REKEY) != 0;
  if (rekey || sodium_is_zero(stream_.nonce, kCounterBytes) != 0) crypto_secretstream_xchacha20poly1305_rekey(&stream_);
}

}  // namespace gearbox::link
