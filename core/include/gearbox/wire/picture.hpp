// picture.hpp: what a JPEG or PNG file says of itself, read without decoding a pixel.
//
// Every picture from outside passes here before anything is reserved for its pixels. Work is bounded by the bytes
// given.
#pragma once

#include <cstdint>
#include <string_view>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::wire {

enum class PictureType : std::uint8_t { jpeg, png };
std::string_view name_of(PictureType type);  // "JPEG", "PNG"

struct PictureInfo {
  PictureType type{};
  std::uint32_t width = 0;  // pixels, as stored: an EXIF rotation is not looked at
  std::uint32_t height = 0;
  std::uint8_t channels = 0;  // as stored; 1 for a palette
  std::uint8_t bits = 0;      // for each channel
};

struct PictureLimits {
  std::uint64_t max_pixels = 100'000'000;  // 300 MB as r, g, b
};

/// Reads the header at the front of `head`, which may be the whole file or its first part (a JPEG's size can stand
/// behind 64 KiB of EXIF and more). Keeps no view. Errors: bad_picture: empty, no JPEG or PNG, cut before the size,
/// zero or over limits.max_pixels pixels, a kind of coding that decoders do not know.
Outcome<PictureInfo> look_at_picture(ByteView head, const PictureLimits& limits = {});

/// The same for a whole file, and walks it to its own end: PNG chunks with their checksums to IEND, JPEG markers
/// through all scans to EOI. So a cut file is refused where it is cheap, not in a model. Damage inside JPEG scans is
/// not seen here. Bytes behind the end are allowed: cameras append previews and films there. Errors: bad_picture, with
/// what is missing and at which byte.
Outcome<PictureInfo> check_picture_whole(ByteView file, const PictureLimits& limits = {});

/// Errors: bad_picture when `file_name` ends in .jpg, .jpeg or .png (any case) and the content is of the other type.
Outcome<void> check_picture_name(PictureType type, std::string_view file_name);

}  // namespace gearbox::wire
