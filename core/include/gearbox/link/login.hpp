// login.hpp: how an identity is proven on a fresh channel: a signature over the channel's h, made and checked here
// only.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/link/keys.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::link {

/// Sets `hello.key` and `hello.signature`: Ed25519 over "gearbox hello 1" ‖ 0 ‖ hello.role ‖ h. `h` is
/// SecureChannel::h().
void sign_hello(const SigningKeys& keys, ByteView h, wire::Hello& hello);
/// Errors: auth_failed. It proves the key only: whether that key is known is for the caller to say.
Outcome<void> check_hello(const wire::Hello& hello, ByteView h);

/// The same for enrol: over "gearbox enrol 1" ‖ 0 ‖ h.
void sign_enrol(const SigningKeys& keys, ByteView h, wire::Enrol& enrol);
Outcome<void> check_enrol(const wire::Enrol& enrol, ByteView h);

}  // namespace gearbox::link
