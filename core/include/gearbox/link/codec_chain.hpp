// codec_chain.hpp: a whole tensor through a chain of codecs, tile by tile: node and pi_client cut alike.
//
// A picture (rank 2 or 3, at most 4 channels) is cut into bands of whole rows, all other tensors into plain runs of
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/wire/frame.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::link {

/// Where the tiles of one tensor lie. Both sides compute it from the TensorSpec; nothing of it travels.
class TileLayout {
 public:
  /// Errors: bad_input when the spec does not fit together (wire::check).
  static Outcome<TileLayout> of(const wire::TensorSpec& spec);

  std::size_t count() const { return count_; }  // 0 for an empty tensor
  std::uint64_t plain_bytes() const { return plain_bytes_; }
  bool is_picture() const { return is_picture_; }
  /// Precondition of these: index < count().
  plugin::TileView tile(std::size_t index) const;
  std::uint64_t offset(std::size_t index) const { return std::uint64_t{index} * tile_bytes_; }
  std::size_t bytes(std::size_t index) const { return tile(index).bytes(); }
  std::size_t largest_bytes() const { return count_ == 0 ? 0 : bytes(0); }

 private:
  plugin::TileView full_;  // of every tile but the last
  std::size_t tile_bytes_ = 0;
  std::size_t count_ = 0;
  std::uint64_t plain_bytes_ = 0;
  std::uint64_t rows_ = 0;  // of the picture; 0 for plain bytes
  bool is_picture_ = false;
};

/// One step of a chain. The shared_ptr keeps the plugin's library open, too.
struct NamedCodec {
  std::string name;
  std::shared_ptr<plugin::Codec> codec;
};

inline constexpr std::size_t kMaxChain = 4;

/// The codecs of one upload with their scratch memory: at most one tile's bound for each step, made once.
/// Threads: one at a time. Tiles may come in any order.
class CodecChain {
 public:
  /// `codecs` in the order of encoding. Errors: bad_input when it is empty, longer than kMaxChain, when a codec does
  /// not take this tensor or cannot stand behind another, or a coded tile might not fit into a frame.
  static Outcome<CodecChain> create(const wire::TensorSpec& spec, std::vector<NamedCodec> codecs);

  const TileLayout& layout() const { return layout_; }
  bool lossless() const;
  /// No coded tile is longer; at most wire::kMaxPayloadBytes.
  std::size_t coded_bound() const { return coded_bound_; }

  /// Codes tile `index` of `plain`, the whole tensor, into the front of `out` (coded_bound() long); returns the bytes
  /// used. Errors: bad_input for a tensor of another size or an index past the end; what the codec says, with tensor
  /// and tile.
  Outcome<std::size_t> encode(std::size_t index, ByteView plain, ByteSpan out);
  /// The reverse, straight into the tile's place in `plain`, the whole tensor's memory: nothing else of it is touched,
  /// whatever `coded` holds. Errors: corrupt_data with codec, tensor and tile, also for a tile that comes out too
  /// short; bad_input as above.
  Outcome<void> decode(std::size_t index, ByteView coded, ByteSpan plain);

  /// Codes one tile from the middle and returns coded ÷ plain bytes: what a client asks before it codes the rest.
  /// 1 for an empty tensor.
  Outcome<double> try_ratio(ByteView plain);

 private:
  CodecChain(TileLayout layout, std::string tensor, std::vector<NamedCodec> codecs);
  Outcome<void> check_call(std::size_t index, std::size_t plain_bytes) const;
  Error at(std::size_t index, const std::string& codec, const Error& error) const;

  TileLayout layout_;
  std::string tensor_;
  std::vector<NamedCodec> codecs_;
  struct Between {
    std::unique_ptr<std::byte[]> memory;  // not filled with zeros: that would cost as much as a copy for each upload
    std::size_t bytes = 0;
    ByteSpan span() const { return {memory.get(), bytes}; }
  };
  std::vector<Between> between_;  // between_[k]: what codec k hands to codec k + 1
  std::size_t coded_bound_ = 0;
};

}  // namespace gearbox::link
