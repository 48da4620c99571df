#include "codec/jpeg_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/sample_data.hpp"

namespace gearbox::test {
namespace {

class JpegCodec : public ::testing::Test {
 protected:
  std::unique_ptr<plugin::Codec> codec_ = codec::JpegCodec::create(90).value();

  Bytes code(plugin::Codec& codec, const plugin::TileView& tile) {
    std::mt19937_64 random(1);
    const Bytes plain = natural(random, tile);
    Bytes out(codec.bound(plain.size()));
    const auto used = codec.encode(tile, plain, out);
    EXPECT_TRUE(used.has_value()) << describe(used.error());
    out.resize(used ? used.value() : 0);
    return out;
  }
};

TEST_F(JpegCodec, RefusesAQualityOutsideItsRange) {
  EXPECT_EQ(codec::JpegCodec::create(0).error().code, Errc::bad_plugin);
  EXPECT_EQ(codec::JpegCodec::create(101).error().code, Errc::bad_plugin);
}

TEST_F(JpegCodec, MakesLessOfLowerQuality) {
  const plugin::TileView tile{wire::DType::uint8, 64, 200, 3};
  auto low = codec::JpegCodec::create(30).value();
  const std::size_t at_ninety = code(*codec_, tile).size();
  EXPECT_LT(code(*low, tile).size(), at_ninety * 7 / 10);
  EXPECT_LT(at_ninety, tile.bytes() / 3);
}

TEST_F(JpegCodec, RefusesAPictureOfAnotherSizeBeforeDecoding) {
  const plugin::TileView tile{wire::DType::uint8, 16, 40, 3};
  const Bytes coded = code(*codec_, tile);
  for (const plugin::TileView& other :
       {plugin::TileView{wire::DType::uint8, 16, 41, 3}, plugin::TileView{wire::DType::uint8, 40, 16, 3},
        plugin::TileView{wire::DType::uint8, 48, 40, 1}}) {
    Bytes back(other.bytes(), std::byte{0x5A});
    const auto used = codec_->decode(other, coded, back);
    ASSERT_FALSE(used.has_value());
    EXPECT_EQ(used.error().code, Errc::corrupt_data);
    EXPECT_NE(used.error().detail.find("not the tile's"), std::string::npos) << used.error().detail;
    EXPECT_TRUE(std::all_of(back.begin(), back.end(), [](std::byte b) { return b == std::byte{0x5A}; }));
  }
}

TEST_F(JpegCodec, RefusesAPictureThatClaimsToBeHuge) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const plugin::TileView tile{wire::DType::uint8, 16, 40, 3};
  Bytes back(tile.bytes());
  const auto used = codec_->decode(tile, read_file(cases / "c52_claims_65535x65535.jpg"), back);
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, Errc::corrupt_data);
}

TEST_F(JpegCodec, SaysSoWhenTheRoomIsTooShortAndWorksOn) {
  const plugin::TileView tile{wire::DType::uint8, 32, 64, 3};
  std::mt19937_64 random(2);
  const Bytes plain = random_bytes(random, tile.bytes());
  Bytes room(200 + 64, std::byte{0xA5});
  const auto used = codec_->encode(tile, plain, ByteSpan(room).first(200));
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, Errc::internal);
  EXPECT_TRUE(std::all_of(room.begin() + 200, room.end(), [](std::byte b) { return b == std::byte{0xA5}; }));
  EXPECT_FALSE(code(*codec_, tile).empty());
}

}  // namespace
}  // namespace gearbox::test
