// zstd_codec.hpp: Zstandard, one frame for each tile. The only codec of ours that makes bytes fewer by itself without
// loss.
#pragma once

#include <memory>

#include "gearbox/plugin/codec.hpp"

// zstd's own types, which its header declares too: no third-party include here.
struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace gearbox::codec {

struct ZstdSettings {
  int level = 1;            // for anything that is no 8-bit picture
  int picture_level = -50;  // for tiles of 8-bit pixels: what image_delta leaves of them has few matches, and looking
                            // for them costs time and bits
};
inline constexpr int kLowestZstdLevel = -50;
inline constexpr int kHighestZstdLevel = 19;

/// Takes any bytes. With a negative level the literals are still Huffman-coded, which zstd would leave out by itself.
/// Both contexts are kept between calls: making one costs more than coding a tile.
class ZstdCodec final : public plugin::Codec {
 public:
  /// Errors: bad_plugin for a level outside -50..19 (0 is zstd's own default, 3), no_space when contexts cannot be
  /// made.
  static Outcome<std::unique_ptr<plugin::Codec>> create(const ZstdSettings& settings);

  bool lossless() const override { return true; }
  bool takes_any_bytes() const override { return true; }
  bool accepts(const plugin::TileView&) const override { return true; }
  std::size_t bound(std::size_t in_bytes) const override;
  /// Errors: internal when `out` is shorter than bound().
  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;
  /// Takes exactly one frame: another behind it, a skippable one, bytes left over, a window over 8 MiB, a dictionary,
  /// or a declared size over `out` are corrupt_data. A frame that declares no size may fill `out` and not one byte
  /// more.
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override;

 private:
  struct FreeEncoder {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  struct FreeDecoder {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  using Encoder = std::unique_ptr<ZSTD_CCtx_s, FreeEncoder>;
  using Decoder = std::unique_ptr<ZSTD_DCtx_s, FreeDecoder>;

  ZstdCodec(Encoder pictures, Encoder others, Decoder decoder);
  static Outcome<Encoder> make_encoder(int level);

  Encoder pictures_;
  Encoder others_;
  Decoder decoder_;
};

}  // namespace gearbox::codec
