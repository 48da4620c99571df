#include "link/handshake.hpp"

#include <algorithm>

#include "gearbox/base/ids.hpp"
#include "link/bytes_cast.hpp"

namespace gearbox::link {

namespace {

constexpr std::string_view kProtocolName = "gearbox-nk-x25519-xchacha20poly1305-blake2b";

void hash_in(crypto_generichash_state& state, ByteView bytes) {
  crypto_generichash_update(&state, raw(bytes), bytes.size());
}

}  // namespace

Ephemeral::Ephemeral() {
  crypto_box_keypair(raw(public_key), raw(secret));
}
Ephemeral::~Ephemeral() {
  wipe(secret);
}

SharedSecret::~SharedSecret() {
  wipe(bytes_);
}

bool SharedSecret::set_static(const Key& secret, ByteView peer_key) {
  return crypto_scalarmult(raw(bytes_), raw(secret), raw(peer_key)) == 0;
}

bool SharedSecret::set_ephemeral(const Key& secret, ByteView peer_key) {
  return crypto_scalarmult(raw(bytes_) + 32, raw(secret), raw(peer_key)) == 0;
}

Key SharedSecret::traffic_key(ByteView h, Direction direction) const {
  static_assert(sizeof(bytes_) <= crypto_generichash_KEYBYTES_MAX);
  crypto_generichash_state state;
  Key key;
  crypto_generichash_init(&state, raw(bytes_), bytes_.size(), key.size());
  hash_in(state, h);
  const std::array<std::byte, 1> which{static_cast<std::byte>(direction)};
  hash_in(state, which);
  crypto_generichash_final(&state, raw(key), key.size());
  sodium_memzero(&state, sizeof state);
  return key;
}

Key handshake_hash(std::uint16_t version, const Key& server_key, ByteView hello, ByteView reply_open) {
  crypto_generichash_state state;
  Key h;
  crypto_generichash_init(&state, nullptr, 0, h.size());
  hash_in(state, view_of(kProtocolName));
  std::array<std::byte, 2> number;
  store_le(number.data(), version);
  hash_in(state, number);
  hash_in(state, server_key);
  hash_in(state, hello);
  hash_in(state, reply_open);
  crypto_generichash_final(&state, raw(h), h.size());
  return h;
}

std::string_view looks_like(ByteView first_bytes) {
  const std::string_view text = text_of(first_bytes);
  // A TLS record: content type (handshake 22, alert 21), then major version 3.
  if (text.size() >= 2 && (text[0] == '\x16' || text[0] == '\x15') && text[1] == '\x03') return "TLS";
  for (const std::string_view word :
       {"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "CONNECT ", "PRI * ", "HTTP/"}) {
    const std::size_t common = std::min(word.size(), text.size());
    if (common >= 3 && text.substr(0, common) == word.substr(0, common)) return "HTTP";
  }
  if (text.starts_with("SSH-")) return "SSH";
  return {};
}

Error stranger(std::string_view who, ByteView first_bytes) {
  std::string detail(who);
  const std::string_view protocol = looks_like(first_bytes);
  if (!protocol.empty()) {
    detail.append(" speaks ").append(protocol);
  } else {
    detail.append(" starts with bytes ")
        .append(to_hex(first_bytes.first(std::min<std::size_t>(first_bytes.size(), 8))));
  }
  return Error{Errc::not_gearbox, std::move(detail)};
}

}  // namespace gearbox::link
