// keys.hpp: the two kinds of key pairs, their files, and signatures. libsodium; call crypto_ready() once per process.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::link {

/// Initialises libsodium; ends the process with a message when that fails. Cheap when called again; any thread.
void crypto_ready();

/// Overwrites `secret` in a way that the compiler keeps.
void wipe(ByteSpan secret);

/// X25519: a server's channel identity, which clients pin. The secret half is wiped on destruction.
struct ChannelKeys {
  std::array<std::byte, 32> public_key{};
  std::array<std::byte, 32> secret_key{};
  ~ChannelKeys() { wipe(secret_key); }
};

/// Ed25519: identity of a device, a node, or central as signer of tickets. The secret half is wiped on destruction.
struct SigningKeys {
  PublicKey public_key;
  std::array<std::byte, 64> secret_key{};
  ~SigningKeys() { wipe(secret_key); }
};

ChannelKeys make_channel_keys();
SigningKeys make_signing_keys();

/// Reads a key pair, or makes one at first start: a file of mode 0600 in a folder that is made with mode 0700 when
/// missing, written beside, made durable and linked into place: of two processes that start at once, both use the first
/// one's. Errors: io_error with the path; bad_config when the file is cut, of another kind, or readable by others, or
/// its folder may be written by others. A bad file is never replaced: that would silently change who we are.
Outcome<ChannelKeys> load_or_make_channel_keys(const std::filesystem::path& file);
Outcome<SigningKeys> load_or_make_signing_keys(const std::filesystem::path& file);

/// The signed bytes are `purpose` ‖ one zero byte ‖ `message`, so that a signature for one purpose never serves
/// another.
std::array<std::byte, 64> sign(const SigningKeys& keys, std::string_view purpose, ByteView message);
/// True when `signature` (64 bytes) was made by `key` for the same purpose and message.
bool verify(const PublicKey& key, std::string_view purpose, ByteView message, ByteView signature);

RequestId random_request_id();
void fill_random(ByteSpan out);

}  // namespace gearbox::link
