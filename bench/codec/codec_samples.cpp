#include "codec_samples.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include "gearbox/wire/raw_image.hpp"

namespace gearbox::bench {

Outcome<Sample> read_sample(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Error{Errc::io_error, "cannot open " + file};
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const Outcome<wire::RawImage> image = wire::read_raw_image(view_of(text), "image");
  if (!image) return Error{image.error().code, file + ": " + image.error().detail};
  const ByteView data = image.value().data;
  return Sample{file.substr(file.rfind('/') + 1), image.value().spec, Bytes(data.begin(), data.end())};
}

namespace {
struct Wave {
  double x, y, phase, height;
};

std::vector<Wave> waves(std::mt19937& random, int count, double finest, double height) {
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<Wave> all;
  for (int k = 0; k < count; ++k) {
    const double scale = finest * std::pow(0.05, std::abs(unit(random)));  // more coarse ones than fine ones
    all.push_back(
        {unit(random) * scale, unit(random) * scale, unit(random) * 3.14, height * finest / (finest + 3 * scale)});
  }
  return all;
}

double sum(const std::vector<Wave>& all, double x, double y) {
  double value = 0;
  for (const Wave& wave : all) value += wave.height * std::sin(wave.x * x + wave.y * y + wave.phase);
  return value;
}
}  // namespace

Sample made_photo(unsigned seed) {
  constexpr int kHeight = 900;
  constexpr int kWidth = 1152;
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 1.6);
  const auto light = waves(random, 12, 0.4, 22);
  const auto warm = waves(random, 5, 0.05, 9);
  Sample sample{"made_photo_" + std::to_string(seed),
                {"image", wire::DType::uint8, {kHeight, kWidth, 3}, kHeight * kWidth * 3},
                {}};
  sample.plain.reserve(sample.spec.bytes);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const double edge = sum(warm, x * 0.7, y * 0.7) > 6 ? 35 : 0;
      const double grey = 110 + sum(light, x, y) + edge + noise(random);
      const double tint = sum(warm, x, y);
      for (const double value : {grey + tint + 0.5 * noise(random), grey, grey - tint + 0.5 * noise(random)}) {
        sample.plain.push_back(static_cast<std::byte>(std::clamp(static_cast<int>(std::lround(value)), 0, 255)));
      }
    }
  }
  return sample;
}

Sample made_depth(unsigned seed) {
  constexpr int kHeight = 480;
  constexpr int kWidth = 640;
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.35);
  const auto shape = waves(random, 6, 0.02, 5);
  Sample sample{"made_depth_" + std::to_string(seed),
                {"depth", wire::DType::uint16, {kHeight, kWidth}, kHeight * kWidth * 2},
                {}};
  sample.plain.resize(sample.spec.bytes);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const double wave = sum(shape, x, y);
      const double step = wave > 8 ? 20 : 0;
      const long disparity = std::lround(60 + 0.05 * y + wave + step + noise(random));
      const bool hole = wave > 7.6 && wave < 8.2;
      const long millimetres = hole || disparity < 12 ? 0 : 72'000 / disparity;
      store_le<std::uint16_t>(&sample.plain[2 * (static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x))],
                              static_cast<std::uint16_t>(millimetres));
    }
  }
  return sample;
}

}  // namespace gearbox::bench
