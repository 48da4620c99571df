// codec.hpp: a Codec makes one tile of a tensor smaller, or easier to make smaller, and back.
//
// A tensor is cut into bands of whole rows (tiles); each is coded alone, so that a receiver decodes as frames arrive,
// in bounded memory, straight into place. A chain such as image_delta + zstd codes each tile with the first, then the
// second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/descriptor.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kCodecApi = 1;  // raise on any change to this file

/// What the plain bytes of a tile are. A tensor that is no picture is one row of bytes: rows 1, channels 1, uint8.
struct TileView {
  wire::DType dtype = wire::DType::uint8;
  std::uint32_t rows = 0;      // of this tile
  std::uint32_t width = 0;     // elements, not bytes
  std::uint32_t channels = 1;  // interleaved
  std::size_t bytes() const { return std::size_t{rows} * width * channels * wire::element_bytes(dtype); }
};

/// Stateless to its caller: encode and decode of different tiles may come in any order. Not thread-safe (it may keep
/// scratch memory and contexts): one instance per strand. Neither call may keep a view.
class Codec {
 public:
  virtual ~Codec() = default;
  /// True when decode gives back every bit. A codec that is not lossless is used only where the task allows it.
  virtual bool lossless() const = 0;
  /// True when the chain may put it behind another codec (it takes any bytes); false when it must see the plain tile.
  virtual bool takes_any_bytes() const = 0;
  /// True when it can code tiles of this kind at all (image_delta: 8-bit with 3 or 4 channels, 16-bit with 1).
  virtual bool accepts(const TileView& tile) const = 0;
  /// An upper bound on encode's output for `in_bytes` of input.
  virtual std::size_t bound(std::size_t in_bytes) const = 0;

  /// Codes `in` into the front of `out` (at least bound(in.size()) long); returns the bytes used. `tile` describes the
  /// plain tile at the head of the chain; in.size() == tile.bytes() for the first codec of it.
  virtual Outcome<std::size_t> encode(const TileView& tile, ByteView in, ByteSpan out) = 0;

  /// The reverse. The caller knows from `tile` how long the plain tile is; for a codec behind another, `out` is exactly
  /// as long as that one's encode output may be, and the bytes really used are returned. Never writes past `out`,
  /// whatever `in` holds. Errors: corrupt_data, with what is wrong.
  virtual Outcome<std::size_t> decode(const TileView& tile, ByteView in, ByteSpan out) = 0;
};

template <>
struct KindTraits<Kind::codec> {
  using Class = Codec;
  static constexpr std::uint32_t kApi = kCodecApi;
};

}  // namespace gearbox::plugin
