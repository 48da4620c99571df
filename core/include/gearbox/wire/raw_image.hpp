// raw_image.hpp: raw frames as files: .npy (NumPy, versions 1 and 2) and binary PNM (P5 grey, P6 colour; 8 and 16 bit).
#pragma once

#include <string>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::wire {

/// A frame as a tensor, always little-endian and row-major.
struct RawImage {
  TensorSpec spec;
  ByteView data;  // spec.bytes long; into the file, or into `swapped` where bytes had to change places
  Bytes swapped;  // moving a RawImage keeps `data` valid, copying it does not

  RawImage() = default;
  RawImage(RawImage&&) = default;
  RawImage& operator=(RawImage&&) = default;
  RawImage(const RawImage&) = delete;
  RawImage& operator=(const RawImage&) = delete;
};

/// True when `file` starts like one of the formats here: "\x93NUMPY", "P5" or "P6".
bool looks_raw(ByteView file);

/// Reads a whole file; `file` must outlive the result. Bits pass unchanged (NaN, -0, denormals). `tensor_name` becomes
/// spec.name.
///   .npy: bool, u1-u8, i1-i8, f2, f4, f8, either byte order, C order, 1 to 4 dimensions.
///   PNM: [height, width] or [height, width, 3]; UINT8, or UINT16 for a maximum over 255. Values are not scaled.
/// Nothing is allocated from a size that the file's own length does not bear out.
/// Errors: bad_picture, with what is wrong: another format, a header that does not parse, a dtype or order that is not
/// read, no elements, a file that is longer or shorter than its header says. bad_name for `tensor_name`.
Outcome<RawImage> read_raw_image(ByteView file, std::string tensor_name);

}  // namespace gearbox::wire
