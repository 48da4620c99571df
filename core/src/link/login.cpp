#include "gearbox/link/login.hpp"

namespace gearbox::link {

namespace {

constexpr std::string_view kHelloPurpose = "gearbox hello 1";
constexpr std::string_view kEnrolPurpose = "gearbox enrol 1";
constexpr std::size_t kHBytes = 32;

/// h has a fixed length and stands last: no two (role, h) give the same bytes.
std::string role_and_h(std::string_view role, ByteView h) {
  return std::string(role).append(text_of(h));
}

Outcome<void> check_signature(const PublicKey& key, std::string_view purpose, ByteView message, std::string_view hex) {
  std::array<std::byte, 64> signature{};
  if (!from_hex(hex, signature)) return Error{Errc::auth_failed, "the signature is not 64 bytes in hexadecimal"};
  if (!verify(key, purpose, message, signature)) {
    return Error{Errc::auth_failed, "the signature does not prove the key on this channel"};
  }
  return done();
}

}  // namespace

void sign_hello(const SigningKeys& keys, ByteView h, wire::Hello& hello) {
  hello.key = keys.public_key;
  hello.signature = to_hex(sign(keys, kHelloPurpose, view_of(role_and_h(hello.role, h))));
}

Outcome<void> check_hello(const wire::Hello& hello, ByteView h) {
  if (h.size() != kHBytes) return Error{Errc::auth_failed, "no secure channel to sign over"};
  return check_signature(hello.key, kHelloPurpose, view_of(role_and_h(hello.role, h)), hello.signature);
}

void sign_enrol(const SigningKeys& keys, ByteView h, wire::Enrol& enrol) {
  enrol.key = keys.public_key;
  enrol.signature = to_hex(sign(keys, kEnrolPurpose, h));
}

Outcome<void> check_enrol(const wire::Enrol& enrol, ByteView h) {
  if (h.size() != kHBytes) return Error{Errc::auth_failed, "no secure channel to sign over"};
  return check_signature(enrol.key, kEnrolPurpose, h, enrol.signature);
}

}  // namespace gearbox::link
