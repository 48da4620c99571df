// sample_data.hpp: bytes for tests: the shared inputs where they are, pictures made here, and random changes to both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>

#include "gearbox/base/bytes.hpp"
#include "gearbox/plugin/codec.hpp"

#ifndef GEARBOX_SOURCE_DIR
#error "tests that read shared inputs define GEARBOX_SOURCE_DIR"
#endif

namespace gearbox::test {

/// ../shared beside the source, where a developer has it; nullopt elsewhere.
inline std::optional<std::filesystem::path> shared_folder(const std::string& part) {
  const auto folder = std::filesystem::path(GEARBOX_SOURCE_DIR).parent_path() / "shared" / part;
  std::error_code none;
  if (std::filesystem::is_directory(folder, none)) return folder;
  return std::nullopt;
}

inline Bytes read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const ByteView view = view_of(text);
  return Bytes(view.begin(), view.end());
}

/// Says so on the way, so that the runner counts it.
#define GEARBOX_SHARED_OR_SKIP(name, part)                        \
  const auto name##_found = ::gearbox::test::shared_folder(part); \
  if (!name##_found) {                                            \
    std::cout << "NOT RUN: no folder ../shared/" part "\n";       \
    GTEST_SKIP() << "no folder ../shared/" part;                  \
  }                                                               \
  const std::filesystem::path& name = *name##_found

inline Bytes random_bytes(std::mt19937_64& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xFF);
  return bytes;
}

/// A scene with edges, slopes and sensor noise, in the tile's own type: what codecs are made for.
inline Bytes natural(std::mt19937_64& random, const plugin::TileView& tile) {
  Bytes out(tile.bytes());
  const std::size_t each = wire::element_bytes(tile.dtype);
  std::size_t at = 0;
  for (std::uint32_t y = 0; y < tile.rows; ++y) {
    for (std::uint32_t x = 0; x < tile.width; ++x) {
      for (std::uint32_t c = 0; c < tile.channels; ++c) {
        const bool inside = (x / 37 + y / 23) % 3 == 0;
        const std::uint64_t value = (inside ? 90 : 40) + x / 5 + y / 3 + 11 * c + random() % 4;
        // 16-bit samples come in steps of 13, as a depth camera's do.
        const std::uint64_t sample = each == 1 ? value : (random() % 16 == 0 ? 0 : value * 13);
        for (std::size_t k = 0; k < each; ++k) out[at++] = static_cast<std::byte>((sample >> (8 * k)) & 0xFF);
      }
    }
  }
  return out;
}

/// Changes, inserts, removes or repeats a few bytes, or cuts the end off.
inline Bytes mutated(std::mt19937_64& random, Bytes bytes) {
  const std::size_t changes = 1 + random() % 6;
  for (std::size_t k = 0; k < changes && !bytes.empty(); ++k) {
    const std::size_t at = random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 6) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1U << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random() & 0xFF);
        break;
      case 2:
        bytes[at] = random() % 2 == 0 ? std::byte{0xFF} : std::byte{0};
        break;
      case 3:
        bytes.insert(place, static_cast<std::byte>(random() & 0xFF));
        break;
      case 4:
        bytes.erase(place);
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace gearbox::test
