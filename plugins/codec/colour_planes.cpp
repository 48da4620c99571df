#include "codec/colour_planes.hpp"

#include <cstring>
#include <utility>

#include "codec/vector_loops.hpp"

namespace gearbox::codec {

namespace {
// For x the pixel, L, U, UL its neighbours: x - (L + U - UL) is the difference of two vertical differences, (x - U) - (L - UL).
// So coding needs no neighbour that is not yet there, and decoding a row is one running sum on top of the row above.

template <std::size_t channels>
GEARBOX_LOOP void split_row(const std::uint8_t* __restrict pixels, std::size_t width, std::uint8_t* __restrict planes) {
  for (std::size_t i = 0; i < width; ++i) {
    if constexpr (channels == 1) {
      planes[i] = pixels[i];
    } else {
      const std::uint8_t green = pixels[channels * i + 1];
      planes[i] = static_cast<std::uint8_t>(pixels[channels * i] - green);
      planes[width + i] = green;
      planes[2 * width + i] = static_cast<std::uint8_t>(pixels[channels * i + 2] - green);
      if constexpr (channels == 4) planes[3 * width + i] = pixels[channels * i + 3];
    }
  }
}

template <std::size_t channels>
GEARBOX_LOOP void join_row(const std::uint8_t* __restrict planes, std::size_t width, std::uint8_t* __restrict pixels) {
  for (std::size_t i = 0; i < width; ++i) {
    if constexpr (channels == 1) {
      pixels[i] = planes[i];
    } else {
      const std::uint8_t green = planes[width + i];
      pixels[channels * i] = static_cast<std::uint8_t>(planes[i] + green);
      pixels[channels * i + 1] = green;
      pixels[channels * i + 2] = static_cast<std::uint8_t>(planes[2 * width + i] + green);
      if constexpr (channels == 4) pixels[channels * i + 3] = planes[3 * width + i];
    }
  }
}

GEARBOX_LOOP void residual_row(const std::uint8_t* __restrict row, const std::uint8_t* __restrict above, std::size_t width,
                               std::uint8_t* __restrict out) {
  out[0] = static_cast<std::uint8_t>(row[0] - above[0]);
  for (std::size_t i = 1; i < width; ++i) {
    out[i] = static_cast<std::uint8_t>((row[i] - above[i]) - (row[i - 1] - above[i - 1]));
  }
}

// `scratch` holds two rows of all planes: this one and the one above, which is zero over the first.
template <std::size_t channels>
GEARBOX_LOOP void encode_band(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch) {
  const std::size_t row_bytes = band.width * channels;
  const std::size_t plane_bytes = band.rows * band.width;
  std::uint8_t* row = scratch;
  std::uint8_t* above = scratch + row_bytes;
  std::memset(above, 0, row_bytes);
  for (std::size_t y = 0; y < band.rows; ++y) {
    split_row<channels>(pixels + y * row_bytes, band.width, row);
    for (std::size_t p = 0; p < channels; ++p) {
      residual_row(row + p * band.width, above + p * band.width, band.width, planes + p * plane_bytes + y * band.width);
    }
    std::swap(row, above);
  }
}

template <std::size_t channels>
GEARBOX_LOOP void decode_band(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch) {
  const std::size_t row_bytes = band.width * channels;
  const std::size_t plane_bytes = band.rows * band.width;
  std::memset(scratch, 0, row_bytes);
  for (std::size_t y = 0; y < band.rows; ++y) {
    for (std::size_t p = 0; p < channels; ++p) {
      std::uint8_t* const row = scratch + p * band.width;
      running_sum_bytes<true>(row, planes + p * plane_bytes + y * band.width, row, band.width, 0);
    }
    join_row<channels>(scratch, band.width, pixels + y * row_bytes);
  }
}

GEARBOX_LOOP void encode_any(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch) {
  if (band.channels == 1) encode_band<1>(band, pixels, planes, scratch);
  if (band.channels == 3) encode_band<3>(band, pixels, planes, scratch);
  if (band.channels == 4) encode_band<4>(band, pixels, planes, scratch);
}

GEARBOX_LOOP void decode_any(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch) {
  if (band.channels == 1) decode_band<1>(band, planes, pixels, scratch);
  if (band.channels == 3) decode_band<3>(band, planes, pixels, scratch);
  if (band.channels == 4) decode_band<4>(band, planes, pixels, scratch);
}

#if defined(GEARBOX_HAS_AVX2_PATH)
GEARBOX_AVX2 void encode_avx2(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch) {
  encode_any(band, pixels, planes, scratch);
}
GEARBOX_AVX2 void decode_avx2(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch) {
  decode_any(band, planes, pixels, scratch);
}
#endif
}  // namespace

std::size_t colour_scratch_bytes(const PixelBand& band) { return 2 * band.width * band.channels; }

void colour_to_planes(const PixelBand& band, const std::uint8_t* pixels, std::uint8_t* planes, std::uint8_t* scratch) {
  if (band.width == 0 || band.rows == 0) return;
#if defined(GEARBOX_HAS_AVX2_PATH)
  if (cpu_has_avx2()) return encode_avx2(band, pixels, planes, scratch);
#endif
  encode_any(band, pixels, planes, scratch);
}

void planes_to_colour(const PixelBand& band, const std::uint8_t* planes, std::uint8_t* pixels, std::uint8_t* scratch) {
  if (band.width == 0 || band.rows == 0) return;
#if defined(GEARBOX_HAS_AVX2_PATH)
  if (cpu_has_avx2()) return decode_avx2(band, planes, pixels, scratch);
#endif
  decode_any(band, planes, pixels, scratch);
}

}  // namespace gearbox::codec
