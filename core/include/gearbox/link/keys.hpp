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

/// X25519: a server's channel identity, which clients pin.
struct ChannelKeys {
  std::array<std::byte, 32> public_key{};
  std::array<std::byte, 32> secret_key{};
};

/// Ed25519: identity of a device, a node, or central as signer of tickets.
struct SigningKeys {
  PublicKey public_key;
  std::array<std::byte, 64> secret_key{};
};

ChannelKeys make_channel_keys();
SigningKeys make_signing_keys();

/// Reads a key pair, or makes one at first start: a file of mode 0600 in a folder of mode 0700, written beside and renamed.
/// Errors: io_error with the path; bad_config when the file is cut, of another kind, or readable by others.
Outcome<ChannelKeys> load_or_make_channel_keys(const std::filesystem::path& file);
Outcome<SigningKeys> load_or_make_signing_keys(const std::filesystem::path& file);

std::array<std::byte, 64> sign(const SigningKeys& keys, std::string_view purpose, ByteView message);
/// True when `signature` (64 bytes) was made by `key` for the same purpose and message.
bool verify(const PublicKey& key, std::string_view purpose, ByteView message, ByteView signature);

RequestId random_request_id();
void fill_random(ByteSpan out);

}  // namespace gearbox::link
