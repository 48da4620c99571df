// link_wire.hpp: what two observers say to each other to learn how the link between them is.
//
//   → 8 bytes: kLinkMagic, then how many bytes follow (little-endian; at most kLinkPiece); those bytes, which mean
//   nothing ← the same 8 bytes, when all of them are there
//
// Plain TCP: nothing is said that anybody may not hear, and what is received is counted and thrown away.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gearbox::observer {

inline constexpr std::uint32_t kLinkMagic = 0x31'4B'4C'47;  // "GLK1"
inline constexpr std::uint32_t kLinkPiece = 16 * 1024;

using LinkHead = std::array<unsigned char, 8>;

inline LinkHead link_head(std::uint32_t bytes) {
  LinkHead head{};
  for (unsigned i = 0; i < 4; ++i) {
    head[i] = static_cast<unsigned char>(kLinkMagic >> (8 * i));
    head[4 + i] = static_cast<unsigned char>(bytes >> (8 * i));
  }
  return head;
}

/// How many bytes follow; nothing when it is no such head.
inline std::optional<std::uint32_t> read_link_head(const LinkHead& head) {
  std::uint32_t magic = 0, bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    magic |= std::uint32_t{head[i]} << (8 * i);
    bytes |= std::uint32_t{head[4 + i]} << (8 * i);
  }
  if (magic != kLinkMagic || bytes > kLinkPiece) return std::nullopt;
  return bytes;
}

}  // namespace gearbox::observer
