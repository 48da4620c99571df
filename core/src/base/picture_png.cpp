#include <array>

#include "base/picture_formats.hpp"

namespace gearbox::wire::picture {

namespace {
constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkExtraBytes = 12;  // length, type, checksum
constexpr std::size_t kHeaderChunkBytes = 13;

// Eight tables, so that eight bytes are taken at a time: one table costs a millisecond for each 400 KB.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr CrcTables make_tables() {
  CrcTables tables{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
    tables[0][n] = c;
  }
  for (std::size_t t = 1; t < 8; ++t) {
    for (std::size_t n = 0; n < 256; ++n) tables[t][n] = (tables[t - 1][n] >> 8) ^ tables[0][tables[t - 1][n] & 0xFF];
  }
  return tables;
}
constexpr CrcTables kCrc = make_tables();

std::uint32_t crc32(ByteView bytes) {
  std::uint32_t c = 0xFFFFFFFF;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint32_t low = c ^ load_le<std::uint32_t>(&bytes[i]);
    const std::uint32_t high = load_le<std::uint32_t>(&bytes[i + 4]);
    c = kCrc[7][low & 0xFF] ^ kCrc[6][(low >> 8) & 0xFF] ^ kCrc[5][(low >> 16) & 0xFF] ^ kCrc[4][low >> 24] ^
        kCrc[3][high & 0xFF] ^ kCrc[2][(high >> 8) & 0xFF] ^ kCrc[1][(high >> 16) & 0xFF] ^ kCrc[0][high >> 24];
  }
  for (; i < bytes.size(); ++i) c = kCrc[0][(c ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xFF] ^ (c >> 8);
  return c ^ 0xFFFFFFFF;
}

std::uint32_t load_be32(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(from[i]);
  return value;
}

struct Chunk {
  std::string_view type;
  ByteView data;
  std::size_t whole_bytes = 0;
};

bool is_letters(std::string_view type) {
  for (const char c : type) {
    if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) return false;
  }
  return true;
}

/// The chunk at `at`, its checksum held against its bytes.
Outcome<Chunk> chunk_at(ByteView file, std::size_t at) {
  const std::size_t left = file.size() - at;
  if (left < kChunkExtraBytes) return bad("PNG is cut at byte " + std::to_string(file.size()) + ": no IEND chunk");
  const std::size_t length = load_be32(&file[at]);
  const std::string_view type = text_of(file.subspan(at + 4, 4));
  const std::string where = " at byte " + std::to_string(at);
  if (!is_letters(type)) return bad("PNG has no chunk" + where + " where one must begin");
  if (length > left - kChunkExtraBytes) {
    return bad("PNG is cut at byte " + std::to_string(file.size()) + ": chunk " + std::string(type) + where + " has " +
               std::to_string(length) + " bytes");
  }
  if (crc32(file.subspan(at + 4, 4 + length)) != load_be32(&file[at + 8 + length])) {
    return bad("PNG chunk " + std::string(type) + where + " does not match its checksum");
  }
  return Chunk{type, file.subspan(at + 8, length), length + kChunkExtraBytes};
}

/// Channels for a colour type that may have `bits`; 0 for a pair that the standard does not know.
std::uint8_t channels_of(unsigned colour, unsigned bits) {
  const bool wide = bits == 8 || bits == 16;
  const bool narrow = bits == 1 || bits == 2 || bits == 4;
  switch (colour) {
    case 0:
      return wide || narrow ? 1 : 0;
    case 2:
      return wide ? 3 : 0;
    case 3:
      return narrow || bits == 8 ? 1 : 0;
    case 4:
      return wide ? 2 : 0;
    case 6:
      return wide ? 4 : 0;
    default:
      return 0;
  }
}
}  // namespace

Outcome<PictureInfo> png_header(ByteView head) {
  BOOST_OUTCOME_TRY(const Chunk chunk, chunk_at(head, kSignatureBytes));
  if (chunk.type != "IHDR" || chunk.data.size() != kHeaderChunkBytes)
    return bad("PNG does not begin with its header chunk");
  PictureInfo info;
  info.type = PictureType::png;
  info.width = load_be32(&chunk.data[0]);
  info.height = load_be32(&chunk.data[4]);
  info.bits = std::to_integer<std::uint8_t>(chunk.data[8]);
  const auto colour = std::to_integer<unsigned>(chunk.data[9]);
  info.channels = channels_of(colour, info.bits);
  if (info.channels == 0) {
    return bad("PNG of colour type " + std::to_string(colour) + " with " + std::to_string(info.bits) + " bits");
  }
  if (chunk.data[10] != std::byte{0} || chunk.data[11] != std::byte{0} || chunk.data[12] > std::byte{1}) {
    return bad("PNG of an unknown compression, filter or interlace method");
  }
  if (info.width > 0x7FFFFFFF || info.height > 0x7FFFFFFF) return bad("PNG with a size over 2^31");
  return info;
}

Outcome<void> walk_png(ByteView file) {
  std::size_t at = kSignatureBytes;
  bool has_pixels = false;
  for (;;) {
    BOOST_OUTCOME_TRY(const Chunk chunk, chunk_at(file, at));
    if (chunk.type == "IHDR" && at != kSignatureBytes)
      return bad("PNG has a second header at byte " + std::to_string(at));
    has_pixels = has_pixels || (chunk.type == "IDAT" && !chunk.data.empty());
    if (chunk.type == "IEND") break;
    at += chunk.whole_bytes;
  }
  if (!has_pixels) return bad("PNG ends without pixel data");
  return done();
}

}  // namespace gearbox::wire::picture
