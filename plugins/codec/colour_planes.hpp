// colour_planes.hpp: 8-bit pixels ↔ planes of what is left after a prediction. Plain loops over rows, made for the
// vectoriser.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gearbox::codec {

/// A band of whole rows, interleaved, without padding.
struct PixelBand {
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t channels = 1;
};

/// True when each row of the coded band says by which of three predictions it was coded; else all are of the first.
bool has_forms(const PixelBand& band);
/// Bytes of a coded band: its planes, then a byte for each row where has_forms.
std::size_t colour_coded_bytes(const PixelBand& band);
/// Bytes of scratch that both directions need.
std::size_t colour_scratch_bytes(const PixelBand& band);

/// `pixels` has rows × width × channels bytes, `planes` colour_coded_bytes; they must not overlap. channels: 1, 3 or 4.
void colour_to_planes(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch);
/// False when a row names a prediction that there is not; the rows before it are written.
bool planes_to_colour(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch);

}  // namespace gearbox::codec
