// depth_planes.hpp: 16-bit samples ↔ differences from the left neighbour, in byte planes.
//
// Depth cameras measure in steps of disparity, so that a frame holds some hundred different values, far apart:
// differences of ranks in the list of values that occur are much smaller than differences of the values. A coded tile
// is
//   u16le count · count × u16le, the values that occur, ascending, each less the one before · planes
// count 1..256: one plane, rank differences modulo 256; up to kMaxValues: zigzag rank differences, all low bytes, then
// all high ones; 0: the same of the samples themselves. The first of a row is compared with the first of the row above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/colour_planes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::codec {

inline constexpr std::size_t kMaxValues = 4096;  // past this the list costs more than it saves
inline constexpr std::size_t kDepthHeadBytes = 2 + 2 * kMaxValues;

/// Turns bands around; keeps its tables and a row between calls.
class DepthPlanes {
 public:
  /// `samples` are little-endian at any address, `out` has room for them and kDepthHeadBytes. Returns the bytes used.
  std::size_t encode(const PixelBand& band, const std::uint8_t* samples, std::uint8_t* out);

  /// `samples` has room for the band. Errors: corrupt_data for a list that is too long, not ascending or not followed
  /// by exactly its planes, or a rank that it does not have.
  Outcome<void> decode(const PixelBand& band, std::span<const std::uint8_t> coded, std::uint8_t* samples);

 private:
  bool list_values(const PixelBand& band, const std::uint8_t* samples);

  std::vector<std::uint16_t> values_;  // those that occur, ascending
  std::vector<std::uint8_t> present_;  // by value
  std::vector<std::uint16_t> rank_;    // by value
  std::vector<std::uint16_t> row_;
  std::vector<std::uint8_t> row_bytes_;
};

}  // namespace gearbox::codec
