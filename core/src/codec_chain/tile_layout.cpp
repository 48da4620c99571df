#include <algorithm>

#include "gearbox/link/codec_chain.hpp"

namespace gearbox::link {

namespace {
/// Rows go in sixteens where there are so many: the block height of a JPEG with halved colours.
std::uint64_t rows_for(std::uint64_t row_bytes) {
  const std::uint64_t rows = wire::kTileBytes / row_bytes;
  return rows >= 16 ? rows / 16 * 16 : rows;
}
}  // namespace

Outcome<TileLayout> TileLayout::of(const wire::TensorSpec& spec) {
  BOOST_OUTCOME_TRY(wire::check(spec));
  TileLayout layout;
  layout.plain_bytes_ = spec.bytes;
  if (spec.bytes == 0) return layout;

  const std::size_t each = wire::element_bytes(spec.dtype);
  const std::size_t rank = spec.shape.size();
  if (each != 0 && (rank == 2 || (rank == 3 && spec.shape[2] <= 4))) {
    const std::uint64_t row_bytes = spec.bytes / static_cast<std::uint64_t>(spec.shape[0]);
    // A row that is longer than a tile is no camera's; as plain bytes it still travels in bounded pieces.
    if (row_bytes <= wire::kTileBytes) {
      layout.is_picture_ = true;
      layout.rows_ = static_cast<std::uint64_t>(spec.shape[0]);
      layout.full_.dtype = spec.dtype;
      layout.full_.rows = static_cast<std::uint32_t>(std::min(rows_for(row_bytes), layout.rows_));
      layout.full_.width = static_cast<std::uint32_t>(spec.shape[1]);
      layout.full_.channels = rank == 3 ? static_cast<std::uint32_t>(spec.shape[2]) : 1;
    }
  }
  if (!layout.is_picture_) {
    layout.full_.rows = 1;
    layout.full_.width = static_cast<std::uint32_t>(std::min<std::uint64_t>(spec.bytes, wire::kTileBytes));
  }
  layout.tile_bytes_ = layout.full_.bytes();
  layout.count_ = static_cast<std::size_t>((spec.bytes + layout.tile_bytes_ - 1) / layout.tile_bytes_);
  return layout;
}

plugin::TileView TileLayout::tile(std::size_t index) const {
  plugin::TileView view = full_;
  if (index + 1 < count_) return view;
  if (is_picture_) {
    view.rows = static_cast<std::uint32_t>(rows_ - std::uint64_t{index} * full_.rows);
  } else {
    view.width = static_cast<std::uint32_t>(plain_bytes_ - offset(index));
  }
  return view;
}

}  // namespace gearbox::link
