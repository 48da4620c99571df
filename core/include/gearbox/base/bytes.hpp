// bytes.hpp: little-endian loads and stores at any address, on any CPU; no struct is ever laid over a buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gearbox {

using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

template <class Unsigned>
Unsigned load_le(const std::byte* from) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value | static_cast<Unsigned>(std::to_integer<Unsigned>(from[i]) << (8 * i)));
  }
  return value;
}

template <class Unsigned>
void store_le(std::byte* to, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFF);
  }
}

inline ByteView view_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace gearbox
