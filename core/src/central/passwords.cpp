#include "central/passwords.hpp"

#include <sodium.h>

#include <array>

#include "gearbox/base/text.hpp"

namespace gearbox::central {

Outcome<void> check_new_password(std::string_view password) {
  if (password.size() < kMinPasswordBytes) {
    return Error{Errc::bad_input,
                 "the password is too short: at least " + std::to_string(kMinPasswordBytes) + " bytes"};
  }
  if (password.size() > kMaxPasswordBytes) {
    return Error{Errc::bad_input, "the password is too long: at most " + std::to_string(kMaxPasswordBytes) + " bytes"};
  }
  if (!is_utf8(password)) return Error{Errc::bad_input, "the password is not UTF-8 text"};
  for (const char c : password) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return Error{Errc::bad_input, "the password holds a control character (a line break or a tab?)"};
    }
  }
  return done();
}

Outcome<std::string> hash_password(std::string_view password) {
  std::array<char, crypto_pwhash_STRBYTES> hash{};
  if (crypto_pwhash_str(hash.data(), password.data(), password.size(), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                        crypto_pwhash_MEMLIMIT_INTERACTIVE) != 0) {
    return Error{Errc::no_space, "no memory for a password check (64 MiB)"};
  }
  return std::string(hash.data());
}

bool password_matches(const std::string& hash, std::string_view password) {
  // Made once, with today's cost, from bytes that nobody knows: what an unknown account's password is checked against.
  static const std::string nobody = [] {
    std::array<char, 32> secret{};
    randombytes_buf(secret.data(), secret.size());
    Outcome<std::string> made = hash_password(std::string_view(secret.data(), secret.size()));
    return made ? std::move(made).value() : std::string();
  }();
  const std::string& against = hash.empty() ? nobody : hash;
  const bool same = crypto_pwhash_str_verify(against.c_str(), password.data(), password.size()) == 0;
  return same && !hash.empty();
}

}  // namespace gearbox::central
