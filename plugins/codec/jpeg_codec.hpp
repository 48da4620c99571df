// jpeg_codec.hpp: lossy pictures. Each tile, a band of rows, is a baseline JPEG of its own.
#pragma once

#include <memory>

#include "gearbox/plugin/codec.hpp"

namespace gearbox::codec {

inline constexpr int kLowestJpegQuality = 1;
inline constexpr int kHighestJpegQuality = 100;

/// 8-bit, 1 channel (grey) or 3 (r, g, b). Used only where a task allows loss.
class JpegCodec final : public plugin::Codec {
 public:
  /// Errors: bad_plugin for a quality outside 1..100, no_space when the library cannot start.
  static Outcome<std::unique_ptr<plugin::Codec>> create(int quality);
  ~JpegCodec() override;

  bool lossless() const override { return false; }
  bool takes_any_bytes() const override { return false; }
  bool accepts(const plugin::TileView& tile) const override;
  /// Noise at quality 100 stays below 2 bytes for each sample; the rest is for headers.
  std::size_t bound(std::size_t in_bytes) const override { return 2 * in_bytes + 4096; }
  /// Errors: bad_input for a tile it does not know, internal when `out` is too short.
  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;
  /// Refuses, before any pixel is decoded, another size or number of channels than the tile's and whatever encode would
  /// not make (progressive, arithmetic or 12-bit coding, several scans: they cost memory or time without a limit);
  /// after that a cut or damaged scan and bytes behind the end. All corrupt_data.
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;

 private:
  struct Library;  // libjpeg's objects, kept between calls
  explicit JpegCodec(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace gearbox::codec
