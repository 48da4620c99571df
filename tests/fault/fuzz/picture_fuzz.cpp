// Pictures and raw frames as devices send them.
#include "fuzz.hpp"
#include "gearbox/wire/picture.hpp"
#include "gearbox/wire/raw_image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  const ByteView file(reinterpret_cast<const std::byte*>(data), size);
  const wire::PictureLimits limits;
  const auto head = wire::look_at_picture(file, limits);
  const auto whole = wire::check_picture_whole(file, limits);
  fuzz::require(head || !whole, "what is whole has a head");
  for (const auto& info : {head, whole}) {
    if (!info) continue;
    const std::uint64_t pixels = std::uint64_t{info.value().width} * info.value().height;
    fuzz::require(pixels > 0 && pixels <= limits.max_pixels, "pixels within the limit");
  }
  const auto raw = wire::read_raw_image(file, "x");
  if (!raw) return 0;
  fuzz::require(wire::looks_raw(file), "what was read looks like it");
  fuzz::require(raw.value().data.size() == raw.value().spec.bytes, "as many bytes as it says");
  fuzz::require(raw.value().data.size() <= size, "and no more than came");
  fuzz::require(wire::check(raw.value().spec).has_value(), "shape and bytes fit each other");
  return 0;
}
