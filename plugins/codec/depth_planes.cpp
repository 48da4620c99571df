#include "codec/depth_planes.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "codec/vector_loops.hpp"

namespace gearbox::codec {

namespace {
constexpr std::size_t kAllValues = 65536;

GEARBOX_LOOP std::uint16_t load_sample(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, 2);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap16(value);
  return value;
}
GEARBOX_LOOP void store_sample(std::uint8_t* at, std::uint16_t value) {
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap16(value);
  std::memcpy(at, &value, 2);
}

// Signed differences as small positive numbers: 0, -1, 1, -2, 2 …
GEARBOX_LOOP std::uint16_t zigzag(std::uint16_t difference) {
  const auto sign = static_cast<std::uint16_t>(-(difference >> 15));
  return static_cast<std::uint16_t>(static_cast<std::uint16_t>(difference << 1) ^ sign);
}
GEARBOX_LOOP std::uint16_t unzigzag(std::uint16_t coded) {
  return static_cast<std::uint16_t>((coded >> 1) ^ static_cast<std::uint16_t>(-(coded & 1)));
}

GEARBOX_LOOP void split_words(const std::uint16_t* __restrict row, std::uint16_t before, std::size_t width,
                              std::uint8_t* __restrict low, std::uint8_t* __restrict high) {
  const std::uint16_t first = zigzag(static_cast<std::uint16_t>(row[0] - before));
  low[0] = static_cast<std::uint8_t>(first);
  high[0] = static_cast<std::uint8_t>(first >> 8);
  for (std::size_t i = 1; i < width; ++i) {
    const std::uint16_t coded = zigzag(static_cast<std::uint16_t>(row[i] - row[i - 1]));
    low[i] = static_cast<std::uint8_t>(coded);
    high[i] = static_cast<std::uint8_t>(coded >> 8);
  }
}

GEARBOX_LOOP void join_words(const std::uint8_t* __restrict low, const std::uint8_t* __restrict high, std::size_t width,
                             std::uint16_t* __restrict row) {
  for (std::size_t i = 0; i < width; ++i) {
    row[i] = unzigzag(static_cast<std::uint16_t>(low[i] | (high[i] << 8)));
  }
}

Error corrupt(std::string why) {
  return Error{Errc::corrupt_data, "image_delta: " + std::move(why)};
}
}  // namespace

// Fills values_ and rank_. False when the list would not pay: too many values, or nearly as many as samples.
bool DepthPlanes::list_values(const PixelBand& band, const std::uint8_t* samples) {
  const std::size_t count = band.rows * band.width;
  present_.assign(kAllValues, 0);
  for (std::size_t i = 0; i < count; ++i) present_[load_sample(samples + 2 * i)] = 1;
  values_.clear();
  rank_.resize(kAllValues);
  for (std::size_t value = 0; value < kAllValues; value += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &present_[value], 8);
    if (eight == 0) continue;
    for (std::size_t k = value; k < value + 8; ++k) {
      if (present_[k] == 0) continue;
      rank_[k] = static_cast<std::uint16_t>(values_.size());
      values_.push_back(static_cast<std::uint16_t>(k));
    }
    if (values_.size() > kMaxValues || values_.size() * 4 > count) return false;
  }
  return true;
}

std::size_t DepthPlanes::encode(const PixelBand& band, const std::uint8_t* samples, std::uint8_t* out) {
  const std::size_t count = band.rows * band.width;
  if (!list_values(band, samples)) values_.clear();
  store_sample(out, static_cast<std::uint16_t>(values_.size()));
  std::uint8_t* at = out + 2;
  std::uint16_t before = 0;
  for (const std::uint16_t value : values_) {
    store_sample(at, static_cast<std::uint16_t>(value - before));
    before = value;
    at += 2;
  }
  const bool narrow = !values_.empty() && values_.size() <= 256;
  row_.resize(band.width);
  std::uint16_t above = 0;  // the first of the row before, as a rank where there is a list
  for (std::size_t y = 0; y < band.rows && band.width > 0; ++y) {
    const std::uint8_t* const from = samples + 2 * y * band.width;
    if (narrow) {
      std::uint8_t* const to = at + y * band.width;
      auto left = above;
      for (std::size_t i = 0; i < band.width; ++i) {
        const std::uint16_t rank = rank_[load_sample(from + 2 * i)];
        to[i] = static_cast<std::uint8_t>(rank - left);
        left = rank;
      }
      above = rank_[load_sample(from)];
      continue;
    }
    if (values_.empty()) {
      for (std::size_t i = 0; i < band.width; ++i) row_[i] = load_sample(from + 2 * i);
    } else {
      for (std::size_t i = 0; i < band.width; ++i) row_[i] = rank_[load_sample(from + 2 * i)];
    }
    split_words(row_.data(), above, band.width, at + y * band.width, at + count + y * band.width);
    above = row_[0];
  }
  return static_cast<std::size_t>(at - out) + (narrow ? count : 2 * count);
}

Outcome<void> DepthPlanes::decode(const PixelBand& band, std::span<const std::uint8_t> coded, std::uint8_t* samples) {
  const std::size_t count = band.rows * band.width;
  if (coded.size() < 2) return corrupt("the list of values is cut");
  const std::size_t listed = load_sample(coded.data());
  if (listed > kMaxValues) return corrupt("a list of " + std::to_string(listed) + " values; 4096 are allowed");
  const bool narrow = listed > 0 && listed <= 256;
  const std::size_t wanted = 2 + 2 * listed + (narrow ? count : 2 * count);
  if (coded.size() != wanted) {
    return corrupt(std::to_string(coded.size()) + " bytes for a tile that takes " + std::to_string(wanted));
  }
  values_.resize(listed);
  std::uint32_t value = 0;
  for (std::size_t k = 0; k < listed; ++k) {
    const std::uint16_t step = load_sample(coded.data() + 2 + 2 * k);
    value += step;
    if (value >= kAllValues || (k > 0 && step == 0)) return corrupt("the list of values does not ascend");
    values_[k] = static_cast<std::uint16_t>(value);
  }
  const std::uint8_t* const planes = coded.data() + 2 + 2 * listed;
  row_.resize(band.width);
  row_bytes_.resize(band.width);
  // Ranks past the list read as zeros here and are refused after the row, so that the loop has no branch.
  std::array<std::uint16_t, 256> narrow_values{};
  if (narrow) std::memcpy(narrow_values.data(), values_.data(), 2 * listed);
  std::uint16_t above = 0;
  for (std::size_t y = 0; y < band.rows && band.width > 0; ++y) {
    std::uint8_t* const to = samples + 2 * y * band.width;
    bool outside = false;
    if (narrow) {
      running_sum_bytes<false>(nullptr, planes + y * band.width, row_bytes_.data(), band.width,
                               static_cast<std::uint8_t>(above));
      std::uint8_t highest = 0;
      for (std::size_t i = 0; i < band.width; ++i) highest = row_bytes_[i] > highest ? row_bytes_[i] : highest;
      outside = highest >= listed;
      for (std::size_t i = 0; i < band.width; ++i) store_sample(to + 2 * i, narrow_values[row_bytes_[i]]);
      above = row_bytes_[0];
    } else {
      join_words(planes + y * band.width, planes + count + y * band.width, band.width, row_.data());
      running_sum_words(row_.data(), band.width, above);
      above = row_[0];
      for (std::size_t i = 0; i < band.width; ++i) {
        std::uint16_t sample = row_[i];
        if (listed > 0) {
          outside = outside || sample >= listed;
          sample = sample < listed ? values_[sample] : 0;
        }
        store_sample(to + 2 * i, sample);
      }
    }
    if (outside) return corrupt("row " + std::to_string(y) + " names a value that the list does not have");
  }
  return done();
}

}  // namespace gearbox::codec
