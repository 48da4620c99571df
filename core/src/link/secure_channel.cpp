#include "gearbox/link/secure_channel.hpp"

#include <algorithm>

#include "link/bytes_cast.hpp"
#include "link/channel_state.hpp"
#include "link/invariant.hpp"

namespace gearbox::link {

namespace {

constexpr unsigned char tag_for(bool last) {
  return static_cast<unsigned char>(last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL
                                         : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}

Error altered() {
  return Error{Errc::decrypt_failed, "a record is altered, cut, repeated or out of order"};
}

}  // namespace

SecureChannel::SecureChannel(std::unique_ptr<State> state) : state_(std::move(state)) {}
SecureChannel::SecureChannel(SecureChannel&&) noexcept = default;
SecureChannel& SecureChannel::operator=(SecureChannel&&) noexcept = default;
SecureChannel::~SecureChannel() = default;

ByteView SecureChannel::h() const {
  return state_->h;
}
bool SecureChannel::peer_finished() const {
  return state_->peer_finished;
}

void SecureChannel::seal(ByteView first, ByteView second, ByteView additional, ByteSpan out, bool last) {
  const std::size_t plain_bytes = first.size() + second.size();
  if (out.size() < plain_bytes + kSealBytes || state_->seal_pieces) broken_invariant("sealing where it does not fit");
  ByteView plain = first.empty() ? second : first;
  if (!first.empty() && !second.empty()) {
    // The plain text starts where its sealed form will lie, one byte on: libsodium seals in place there.
    plain = out.subspan(1, plain_bytes);
    std::memmove(&out[1], first.data(), first.size());
    std::memmove(&out[1 + first.size()], second.data(), second.size());
  }
  crypto_secretstream_xchacha20poly1305_push(&state_->sealing, raw(out), nullptr, raw(plain), plain.size(),
                                             raw(additional), additional.size(), tag_for(last));
}

Outcome<void> SecureChannel::open(ByteView sealed, ByteView additional, ByteSpan out) {
  if (state_->open_pieces) broken_invariant("opening a record inside another");
  if (state_->dead) return altered();
  if (state_->peer_finished) return Error{Errc::closed, "the peer has ended its direction"};
  unsigned char tag = 0;
  if (sealed.size() < kSealBytes || out.size() < sealed.size() - kSealBytes ||
      crypto_secretstream_xchacha20poly1305_pull(&state_->opening, raw(out), nullptr, &tag, raw(sealed), sealed.size(),
                                                 raw(additional), additional.size()) != 0) {
    state_->dead = true;
    return altered();
  }
  state_->peer_finished = tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
  return done();
}

void SecureChannel::seal_begin(ByteView additional, std::byte& head, bool last) {
  if (state_->seal_pieces) broken_invariant("sealing a record inside another");
  state_->seal_pieces = std::make_unique<RecordPieces>(state_->sealing, additional);
  head = state_->seal_pieces->seal_head(tag_for(last));
}

void SecureChannel::seal_part(ByteView plain, ByteSpan out) {
  state_->seal_pieces->seal(plain, out);
}

void SecureChannel::seal_end(std::span<std::byte, kSealBytes - 1> tail) {
  const auto mac = state_->seal_pieces->mac();
  state_->seal_pieces->finish(mac);
  state_->seal_pieces.reset();
  std::copy(mac.begin(), mac.end(), tail.begin());
}

Outcome<void> SecureChannel::open_begin(ByteView additional, std::byte head) {
  if (state_->open_pieces) broken_invariant("opening a record inside another");
  if (state_->dead) return altered();
  if (state_->peer_finished) return Error{Errc::closed, "the peer has ended its direction"};
  state_->open_pieces = std::make_unique<RecordPieces>(state_->opening, additional);
  state_->open_pieces->open_head(head);
  return done();
}

void SecureChannel::open_part(ByteView sealed, ByteSpan out) {
  state_->open_pieces->open(sealed, out);
}

Outcome<void> SecureChannel::open_end(std::span<const std::byte, kSealBytes - 1> tail) {
  const std::unique_ptr<RecordPieces> pieces = std::move(state_->open_pieces);
  const auto mac = pieces->mac();
  if (sodium_memcmp(mac.data(), tail.data(), mac.size()) != 0) {
    state_->dead = true;
    return altered();
  }
  pieces->finish(mac);
  state_->peer_finished = pieces->tag() == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
  return done();
}

}  // namespace gearbox::link
