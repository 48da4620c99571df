// colour_planes.hpp: 8-bit pixels ↔ planes of gradient residuals. Plain loops over rows, made for the vectoriser.
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

/// Bytes of scratch that both directions need.
std::size_t colour_scratch_bytes(const PixelBand& band);

/// `pixels` and `planes` are rows × width × channels bytes each and must not overlap. channels: 1, 3 or 4.
void colour_to_planes(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch);
void planes_to_colour(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch);

}  // namespace gearbox::codec
