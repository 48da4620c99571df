#include "codec/image_delta.hpp"

#include <string>
#include <string_view>

#include "codec/colour_planes.hpp"

namespace gearbox::codec {

namespace {
enum class Form { colour, depth, unknown };

Form form_of(const plugin::TileView& tile) {
  using wire::DType;
  if (tile.dtype == DType::uint8 && (tile.channels == 1 || tile.channels == 3 || tile.channels == 4))
    return Form::colour;
  if ((tile.dtype == DType::uint16 || tile.dtype == DType::int16) && tile.channels == 1) return Form::depth;
  return Form::unknown;
}

Error wrong_size(const plugin::TileView& tile, std::string_view what, std::size_t bytes, Errc code) {
  return Error{code, "image_delta: the tile has " + std::to_string(tile.bytes()) + " bytes, " + std::string(what) +
                         " " + std::to_string(bytes)};
}

Error unknown(const plugin::TileView& tile) {
  return Error{Errc::bad_input, "image_delta: does not know " + std::string(wire::name_of(tile.dtype)) + " with " +
                                    std::to_string(tile.channels) + " channels"};
}

const std::uint8_t* octets(ByteView bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}
std::uint8_t* octets(ByteSpan bytes) {
  return reinterpret_cast<std::uint8_t*>(bytes.data());
}
}  // namespace

Outcome<std::unique_ptr<plugin::Codec>> ImageDelta::create() {
  return std::unique_ptr<plugin::Codec>(new ImageDelta());
}

bool ImageDelta::accepts(const plugin::TileView& tile) const {
  if (tile.dtype == wire::DType::uint8 && tile.channels == 1 && tile.rows < 2) return false;
  return form_of(tile) != Form::unknown;
}

Outcome<std::size_t> ImageDelta::encode(const plugin::TileView& tile, ByteView in, ByteSpan out) {
  if (in.size() != tile.bytes()) return wrong_size(tile, "what came has", in.size(), Errc::bad_input);
  if (out.size() < bound(in.size())) return wrong_size(tile, "the room for its code", out.size(), Errc::internal);
  const PixelBand band{tile.rows, tile.width, tile.channels};
  switch (form_of(tile)) {
    case Form::colour:
      scratch_.resize(colour_scratch_bytes(band));
      colour_to_planes(band, octets(in), octets(out), scratch_.data());
      return colour_coded_bytes(band);
    case Form::depth:
      return depth_.encode(band, octets(in), octets(out));
    case Form::unknown:
      break;
  }
  return unknown(tile);
}

Outcome<std::size_t> ImageDelta::decode(const plugin::TileView& tile, ByteView in, ByteSpan out) {
  if (out.size() < tile.bytes()) return wrong_size(tile, "the room for it", out.size(), Errc::corrupt_data);
  const PixelBand band{tile.rows, tile.width, tile.channels};
  switch (form_of(tile)) {
    case Form::colour:
      if (in.size() != colour_coded_bytes(band)) return wrong_size(tile, "its code has", in.size(), Errc::corrupt_data);
      scratch_.resize(colour_scratch_bytes(band));
      if (!planes_to_colour(band, octets(in), octets(out), scratch_.data())) {
        return Error{Errc::corrupt_data, "image_delta: a row names a prediction that there is not"};
      }
      return tile.bytes();
    case Form::depth: {
      BOOST_OUTCOME_TRY(depth_.decode(band, {octets(in), in.size()}, octets(out)));
      return tile.bytes();
    }
    case Form::unknown:
      break;
  }
  return unknown(tile);
}

}  // namespace gearbox::codec
