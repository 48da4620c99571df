// ids.hpp: the names of things that cross rooms or wires.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox {

/// Chosen at random by the device, unique for ever. With the device's key it names a request everywhere.
struct RequestId {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const RequestId&) const = default;
  bool is_nil() const { return *this == RequestId{}; }
};

/// An Ed25519 public key: a device's or a node's identity.
struct PublicKey {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const PublicKey&) const = default;
};

/// (device key, request id): the identity of a request in every room.
struct RequestKey {
  PublicKey device;
  RequestId id;
  auto operator<=>(const RequestKey&) const = default;
};

/// A worker process of one node; a number is never used twice while the node lives.
enum class WorkerId : std::uint32_t {};

/// Lower-case hexadecimal of `bytes`.
std::string to_hex(ByteView bytes);
/// The reverse, for exactly `out.size()` bytes. Errors: bad_input for another length or other characters.
Outcome<void> from_hex(std::string_view text, ByteSpan out);

inline std::string to_text(const RequestId& id) {
  return to_hex(id.bytes);
}
inline std::string to_text(const PublicKey& key) {
  return to_hex(key.bytes);
}
Outcome<RequestId> request_id_from(std::string_view hex);
Outcome<PublicKey> public_key_from(std::string_view hex);

struct RequestKeyHash {
  std::size_t operator()(const RequestKey& key) const {
    // Both halves are random or hashed by their makers; eight bytes of each are hash enough.
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, key.id.bytes.data(), 8);
    std::memcpy(&b, key.device.bytes.data(), 8);
    return static_cast<std::size_t>(a ^ (b * 0x9E3779B97F4A7C15ULL));
  }
};

}  // namespace gearbox
