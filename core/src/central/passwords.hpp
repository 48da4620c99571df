// passwords.hpp: Argon2id (64 MiB, about 50 ms each), so that a stolen database does not give the passwords away.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

inline constexpr std::size_t kMinPasswordBytes = 8;
inline constexpr std::size_t kMaxPasswordBytes = 1024;

/// Errors: bad_input: too short, too long, not UTF-8, or with control characters (a stray newline from a file).
Outcome<void> check_new_password(std::string_view password);

/// Slow on purpose; any thread. Errors: no_space when its 64 MiB cannot be had.
Outcome<std::string> hash_password(std::string_view password);

/// Slow on purpose, any thread. An empty `hash` (no such account) takes the same time and is false.
bool password_matches(const std::string& hash, std::string_view password);

}  // namespace gearbox::central
