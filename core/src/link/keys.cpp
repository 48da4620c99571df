#include "gearbox/link/keys.hpp"

#include <sodium.h>

#include <cstdio>
#include <cstdlib>

#include "link/bytes_cast.hpp"

namespace gearbox::link {

static_assert(crypto_box_PUBLICKEYBYTES == 32 && crypto_box_SECRETKEYBYTES == 32);
static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_BYTES == 64);

void crypto_ready() {
  static const int state = sodium_init();
  if (state < 0) {
    std::fputs("gearbox: libsodium cannot be initialised (no source of randomness?)\n", stderr);
    std::abort();
  }
}

void wipe(ByteSpan secret) {
  sodium_memzero(secret.data(), secret.size());
}

ChannelKeys make_channel_keys() {
  crypto_ready();
  ChannelKeys keys;
  crypto_box_keypair(raw(keys.public_key), raw(keys.secret_key));
  return keys;
}

SigningKeys make_signing_keys() {
  crypto_ready();
  SigningKeys keys;
  crypto_sign_keypair(raw(keys.public_key.bytes), raw(keys.secret_key));
  return keys;
}

namespace {

Bytes to_be_signed(std::string_view purpose, ByteView message) {
  Bytes bytes;
  bytes.reserve(purpose.size() + 1 + message.size());
  const ByteView head = view_of(purpose);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.push_back(std::byte{0});
  bytes.insert(bytes.end(), message.begin(), message.end());
  return bytes;
}

}  // namespace

std::array<std::byte, 64> sign(const SigningKeys& keys, std::string_view purpose, ByteView message) {
  const Bytes bytes = to_be_signed(purpose, message);
  std::array<std::byte, 64> signature{};
  crypto_sign_detached(raw(signature), nullptr, raw(bytes), bytes.size(), raw(keys.secret_key));
  return signature;
}

bool verify(const PublicKey& key, std::string_view purpose, ByteView message, ByteView signature) {
  if (signature.size() != crypto_sign_BYTES) return false;
  const Bytes bytes = to_be_signed(purpose, message);
  return crypto_sign_verify_detached(raw(signature), raw(bytes), bytes.size(), raw(key.bytes)) == 0;
}

void fill_random(ByteSpan out) {
  crypto_ready();
  if (!out.empty()) randombytes_buf(out.data(), out.size());
}

RequestId random_request_id() {
  RequestId id;
  fill_random(id.bytes);
  return id;
}

}  // namespace gearbox::link
