// image_delta.hpp: turns pixels into small differences from their neighbours, so that the codec behind it has little to
// code.
//
// 8-bit, 1, 3 or 4 channels: planes (r-g, g, b less the mean of r and g, alpha), each row less the best of three
// predictions (colour_planes.hpp). 16-bit, 1 channel: ranks among the values that occur, less the left neighbour's
// (depth_planes.hpp). Coded 8-bit tiles are longer by a byte for each row, 16-bit ones about half as long or a little
// longer. Every tile stands alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/depth_planes.hpp"
#include "gearbox/plugin/codec.hpp"

namespace gearbox::codec {

class ImageDelta final : public plugin::Codec {
 public:
  static Outcome<std::unique_ptr<plugin::Codec>> create();

  bool lossless() const override { return true; }
  bool takes_any_bytes() const override { return false; }
  /// Not for a single row of single bytes: that is how a tensor that is no picture looks.
  bool accepts(const plugin::TileView& tile) const override;
  std::size_t bound(std::size_t in_bytes) const override { return in_bytes + in_bytes / 64 + kDepthHeadBytes; }
  /// Errors: bad_input when `in` is not the tile's size, or the tile is of a kind that this codec does not know.
  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;
  /// Nearly every byte string of the right length is some 8-bit picture: damage is for the digest to find.
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;

 private:
  ImageDelta() = default;
  std::vector<std::uint8_t> scratch_;  // two rows of planes; grows to the widest tile seen
  DepthPlanes depth_;
};

}  // namespace gearbox::codec
