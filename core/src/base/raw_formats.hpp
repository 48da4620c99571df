// raw_formats.hpp: the headers of the two raw formats, each read in its own file.
#pragma once

#include <cstdint>
#include <vector>

#include "gearbox/wire/raw_image.hpp"

namespace gearbox::wire::raw {

struct Header {
  DType dtype = DType::uint8;
  bool big_endian = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // at most the file's size
};

/// `file` begins with the format's magic. Errors: bad_picture.
Outcome<Header> npy_header(ByteView file);
Outcome<Header> pnm_header(ByteView file);

}  // namespace gearbox::wire::raw
