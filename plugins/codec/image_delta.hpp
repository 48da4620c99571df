// image_delta.hpp: turns pixels into small differences from their neighbours, so that the codec behind it has little to code.
//
// 8-bit, 1, 3 or 4 channels: planes (r-g, g, b-g, alpha), each pixel less its gradient prediction left + up - upleft.
// 16-bit, 1 channel: ranks among the values that occur, less the left neighbour's, in byte planes (depth_planes.hpp).
// 8-bit output is exactly as long as the input, 16-bit output about half as long or a little longer. Every tile stands alone.
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
  std::size_t bound(std::size_t in_bytes) const override { return in_bytes + kDepthHeadBytes; }
  /// Errors: bad_input when `in` is not the tile's size, or the tile is of a kind that this codec does not know.
  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;
  /// Every byte string of the right length is some 8-bit picture, so there only a wrong length is corrupt_data.
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;

 private:
  ImageDelta() = default;
  std::vector<std::uint8_t> scratch_;  // two rows of planes; grows to the widest tile seen
  DepthPlanes depth_;
};

}  // namespace gearbox::codec
