#include "codec/image_delta.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/sample_data.hpp"

namespace gearbox::test {
namespace {

class ImageDelta : public ::testing::Test {
 protected:
  std::unique_ptr<plugin::Codec> codec_ = codec::ImageDelta::create().value();

  Bytes code(const plugin::TileView& tile, const Bytes& plain) {
    Bytes out(codec_->bound(plain.size()));
    const auto used = codec_->encode(tile, plain, out);
    EXPECT_TRUE(used.has_value());
    out.resize(used ? used.value() : 0);
    return out;
  }
  bool comes_back(const plugin::TileView& tile, const Bytes& plain) {
    const Bytes coded = code(tile, plain);
    Bytes back(plain.size());
    const auto used = codec_->decode(tile, coded, back);
    return used.has_value() && used.value() == plain.size() && back == plain;
  }
};

plugin::TileView depth_tile(std::uint32_t rows, std::uint32_t width) {
  return {wire::DType::uint16, rows, width, 1};
}

/// Samples that take `different` values, `step` apart.
Bytes depth_with(std::mt19937_64& random, const plugin::TileView& tile, std::uint32_t different, std::uint32_t step) {
  Bytes out(tile.bytes());
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    const auto value = i < different ? i * step : random() % different * step;
    store_le<std::uint16_t>(&out[2 * i], static_cast<std::uint16_t>(value));
  }
  return out;
}

TEST_F(ImageDelta, CodesAColourSlopeAsZerosButForItsEdges) {
  const plugin::TileView tile{wire::DType::uint8, 20, 30, 3};
  Bytes plain(tile.bytes());
  for (std::size_t y = 0; y < 20; ++y) {
    for (std::size_t x = 0; x < 30; ++x) {
      for (std::size_t c = 0; c < 3; ++c)
        plain[(y * 30 + x) * 3 + c] = static_cast<std::byte>((3 * x + 5 * y + 7 * c) & 0xFF);
    }
  }
  const Bytes coded = code(tile, plain);
  ASSERT_EQ(coded.size(), plain.size());  // too narrow for a choice of predictions
  for (std::size_t plane = 0; plane < 3; ++plane) {
    for (std::size_t y = 1; y < 20; ++y) {
      for (std::size_t x = 1; x < 30; ++x) ASSERT_EQ(coded[plane * 600 + y * 30 + x], std::byte{0});
    }
  }
}

TEST_F(ImageDelta, TakesBackEveryNumberOfDepthValues) {
  std::mt19937_64 random(1);
  const plugin::TileView tile = depth_tile(128, 131);
  for (const std::uint32_t different : {1U, 2U, 255U, 256U, 257U, 4095U, 4096U, 4097U, 10'000U}) {
    EXPECT_TRUE(comes_back(tile, depth_with(random, tile, different, different <= 4097 ? 15 : 6))) << different;
    EXPECT_TRUE(comes_back(tile, depth_with(random, tile, different, 1))) << different;
  }
}

TEST_F(ImageDelta, HalvesDepthOfFewValues) {
  std::mt19937_64 random(2);
  const plugin::TileView tile = depth_tile(64, 100);
  EXPECT_LT(code(tile, depth_with(random, tile, 200, 13)).size(), tile.bytes() * 55 / 100);
}

TEST_F(ImageDelta, RefusesARankThatItsListDoesNotHave) {
  const plugin::TileView tile = depth_tile(1, 4);
  Bytes coded(2 + 2 * 2 + 4);
  store_le<std::uint16_t>(&coded[0], 2);
  store_le<std::uint16_t>(&coded[2], 10);
  store_le<std::uint16_t>(&coded[4], 10);
  coded[7] = std::byte{1};  // ranks 0 1 1 1
  Bytes back(8);
  ASSERT_TRUE(codec_->decode(tile, coded, back).has_value());
  EXPECT_EQ(load_le<std::uint16_t>(&back[2]), 20);
  coded[8] = std::byte{1};  // ranks 0 1 2 2
  const auto used = codec_->decode(tile, coded, back);
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, Errc::corrupt_data);
}

TEST_F(ImageDelta, RefusesAListThatIsTooLongOrDoesNotAscend) {
  const plugin::TileView tile = depth_tile(1, 4);
  Bytes back(8);
  Bytes coded(2 + 2 * 2 + 4);
  store_le<std::uint16_t>(&coded[0], 2);
  store_le<std::uint16_t>(&coded[2], 10);
  EXPECT_FALSE(codec_->decode(tile, coded, back).has_value()) << "the same value twice";
  store_le<std::uint16_t>(&coded[4], 65'530);
  EXPECT_FALSE(codec_->decode(tile, coded, back).has_value()) << "past 65535";
  store_le<std::uint16_t>(&coded[0], 65'535);
  EXPECT_FALSE(codec_->decode(tile, coded, back).has_value()) << "longer than the tile";
}

TEST_F(ImageDelta, TakesTilesAtOddAddresses) {
  std::mt19937_64 random(3);
  for (const plugin::TileView& tile : {depth_tile(9, 33), plugin::TileView{wire::DType::uint8, 9, 33, 3}}) {
    const Bytes plain = natural(random, tile);
    Bytes shifted(plain.size() + 1);
    std::copy(plain.begin(), plain.end(), shifted.begin() + 1);
    Bytes coded(codec_->bound(plain.size()) + 1);
    const auto used = codec_->encode(tile, ByteView(shifted).subspan(1), ByteSpan(coded).subspan(1));
    ASSERT_TRUE(used.has_value());
    Bytes back(plain.size() + 1);
    ASSERT_TRUE(codec_->decode(tile, ByteView(coded).subspan(1, used.value()), ByteSpan(back).subspan(1)).has_value());
    EXPECT_TRUE(std::equal(plain.begin(), plain.end(), back.begin() + 1));
  }
}

TEST_F(ImageDelta, DoesNotAcceptWhatLooksLikePlainBytes) {
  EXPECT_FALSE(codec_->accepts({wire::DType::uint8, 1, 1000, 1}));
  EXPECT_FALSE(codec_->accepts({wire::DType::fp32, 10, 10, 1}));
  EXPECT_FALSE(codec_->accepts({wire::DType::uint8, 10, 10, 2}));
  EXPECT_TRUE(codec_->accepts({wire::DType::uint8, 10, 10, 4}));
}

TEST_F(ImageDelta, ChangesNoneOfItsRowsWhenOneIsCodedAlone) {
  // A band that is decoded after a wider one must not see what that one left in the scratch memory.
  std::mt19937_64 random(4);
  const plugin::TileView wide{wire::DType::uint8, 4, 300, 4};
  const plugin::TileView small{wire::DType::uint8, 3, 5, 3};
  EXPECT_TRUE(comes_back(wide, random_bytes(random, wide.bytes())));
  EXPECT_TRUE(comes_back(small, random_bytes(random, small.bytes())));
  EXPECT_TRUE(comes_back(wide, random_bytes(random, wide.bytes())));
}

}  // namespace
}  // namespace gearbox::test
