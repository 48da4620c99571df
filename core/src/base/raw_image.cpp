#include "gearbox/wire/raw_image.hpp"

#include <utility>

#include "base/raw_formats.hpp"

namespace gearbox::wire {

namespace {
Error bad(std::string why) {
  return Error{Errc::bad_picture, std::move(why)};
}

constexpr std::string_view kNpyMagic = "\x93NUMPY";

Bytes swap_elements(ByteView data, std::size_t each) {
  Bytes swapped(data.size());
  for (std::size_t at = 0; at < data.size(); at += each) {
    for (std::size_t k = 0; k < each; ++k) swapped[at + k] = data[at + each - 1 - k];
  }
  return swapped;
}
}  // namespace

bool looks_raw(ByteView file) {
  const std::string_view text = text_of(file);
  return text.starts_with(kNpyMagic) || text.starts_with("P5") || text.starts_with("P6");
}

Outcome<RawImage> read_raw_image(ByteView file, std::string tensor_name) {
  if (file.empty()) return bad("empty file");
  if (!looks_raw(file)) return bad("neither .npy nor binary PNM");
  const bool npy = text_of(file).starts_with(kNpyMagic);
  BOOST_OUTCOME_TRY(raw::Header header, npy ? raw::npy_header(file) : raw::pnm_header(file));
  const std::string format = npy ? ".npy" : "PNM";

  const Outcome<std::uint64_t> counted = element_count(header.shape);
  if (!counted) return bad(format + " header: " + counted.error().detail);
  const std::uint64_t count = counted.value();
  if (count == 0) return bad(format + " file holds no elements");
  const std::size_t each = element_bytes(header.dtype);
  const std::size_t there = file.size() - header.data_offset;
  if (there % each != 0 || there / each != count) {
    return bad(format + " header announces " + std::to_string(count) + " elements of " + std::to_string(each) +
               " bytes, the file has " + std::to_string(there) + " bytes for them");
  }
  RawImage image;
  image.spec.name = std::move(tensor_name);
  image.spec.dtype = header.dtype;
  image.spec.shape = std::move(header.shape);
  image.spec.bytes = there;
  BOOST_OUTCOME_TRY(check(image.spec));
  image.data = file.subspan(header.data_offset);
  if (header.big_endian && each > 1) {
    image.swapped = swap_elements(image.data, each);
    image.data = image.swapped;
  }
  return image;
}

}  // namespace gearbox::wire
