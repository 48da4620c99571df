#include "gearbox/base/ids.hpp"

namespace gearbox {

std::string to_hex(ByteView bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    text.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    text.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return text;
}

namespace {
int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

Outcome<void> from_hex(std::string_view text, ByteSpan out) {
  if (text.size() != out.size() * 2) {
    return Error{Errc::bad_input, "expected " + std::to_string(out.size() * 2) + " hexadecimal digits, got " +
                                      std::to_string(text.size())};
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return Error{Errc::bad_input, "not hexadecimal at digit " + std::to_string(2 * i)};
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return done();
}

Outcome<RequestId> request_id_from(std::string_view hex) {
  RequestId id;
  BOOST_OUTCOME_TRY(from_hex(hex, id.bytes));
  return id;
}

Outcome<PublicKey> public_key_from(std::string_view hex) {
  PublicKey key;
  BOOST_OUTCOME_TRY(from_hex(hex, key.bytes));
  return key;
}

}  // namespace gearbox
