#include "codec/zstd_codec.hpp"

#include <gtest/gtest.h>

#include "support/sample_data.hpp"

namespace gearbox::test {
namespace {

Outcome<std::unique_ptr<plugin::Codec>> make(int level) {
  return codec::ZstdCodec::create({.level = level, .picture_level = level});
}

plugin::TileView bytes_tile(std::uint32_t count) {
  return {wire::DType::uint8, 1, count, 1};
}

class ZstdCodec : public ::testing::Test {
 protected:
  std::unique_ptr<plugin::Codec> codec_ = codec::ZstdCodec::create({}).value();

  Outcome<std::size_t> decode(ByteView in, std::uint32_t room_bytes) {
    room_.assign(room_bytes + 64, std::byte{0xA5});
    auto used = codec_->decode(bytes_tile(room_bytes), in, ByteSpan(room_).first(room_bytes));
    for (std::size_t i = room_bytes; i < room_.size(); ++i) EXPECT_EQ(room_[i], std::byte{0xA5});
    return used;
  }
  Bytes room_;
};

TEST_F(ZstdCodec, RefusesLevelsOutsideItsRange) {
  for (const int level : {-51, 20, 1'000'000}) {
    const auto made = make(level);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Errc::bad_plugin);
  }
}

TEST_F(ZstdCodec, CodesLiteralsEvenAtNegativeLevels) {
  // Noise over 16 values: no matches to find, half of each byte to save. Left to itself zstd would store it.
  std::mt19937_64 random(1);
  Bytes plain(100'000);
  for (std::byte& b : plain) b = static_cast<std::byte>(random() % 16);
  auto codec = make(-20).value();
  Bytes out(codec->bound(plain.size()));
  const auto used = codec->encode(bytes_tile(100'000), plain, out);
  ASSERT_TRUE(used.has_value());
  EXPECT_LT(used.value(), 52'000U);
}

TEST_F(ZstdCodec, TakesTheGoodSharedFrame) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const auto used = decode(read_file(cases / "c47_good_2000B.zst"), 2000);
  ASSERT_TRUE(used.has_value()) << describe(used.error());
  EXPECT_EQ(used.value(), 2000U);
}

TEST_F(ZstdCodec, RefusesSharedFramesThatLieOrAreCut) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  std::size_t tried = 0;
  for (const auto& file : std::filesystem::directory_iterator(cases)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".zst") || name.find("_good_") != std::string::npos ||
        name.find("_flip_") != std::string::npos || name.find("_nested") != std::string::npos) {
      continue;
    }
    const auto used = decode(read_file(file.path()), 384 * 1024);
    ASSERT_FALSE(used.has_value()) << name;
    EXPECT_EQ(used.error().code, Errc::corrupt_data) << name;
    EXPECT_TRUE(decode(read_file(cases / "c47_good_2000B.zst"), 2000).has_value()) << "after " << name;
    ++tried;
  }
  EXPECT_EQ(tried, 9U);
}

TEST_F(ZstdCodec, UnpacksANestedBombByOneLayerOnly) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const auto used = decode(read_file(cases / "c44_bomb_nested.zst.zst"), 384 * 1024);
  // Either the outer layer alone already breaks the room, or what comes out is the inner frame, still packed.
  if (used) {
    EXPECT_LE(used.value(), 384U * 1024);
  }
}

// A frame of raw blocks without a checksum hides a flipped bit from zstd: the digest over the upload is what tells.
TEST_F(ZstdCodec, CannotSeeAFlippedBitInARawBlock) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  EXPECT_TRUE(decode(read_file(cases / "c47_flip_in_raw_no_checksum.zst"), 2000).has_value());
}

TEST_F(ZstdCodec, RefusesASkippableFrame) {
  const Bytes skippable{std::byte{0x50}, std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18}, std::byte{4}, std::byte{0},
                        std::byte{0},    std::byte{0},    std::byte{1},    std::byte{2},    std::byte{3}, std::byte{4}};
  const auto used = decode(skippable, 100);
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, Errc::corrupt_data);
}

// zstd itself would pass over a frame that adds nothing, and what else might stand in it.
TEST_F(ZstdCodec, RefusesFramesThatAddNothingBehindTheTile) {
  const Bytes plain(1000, std::byte{7});
  Bytes coded(codec_->bound(plain.size()));
  coded.resize(codec_->encode(bytes_tile(1000), plain, coded).value());
  ASSERT_TRUE(decode(coded, 1000).has_value());
  Bytes skippable = coded;
  for (const int b : {0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 0x55}) skippable.push_back(static_cast<std::byte>(b));
  EXPECT_FALSE(decode(skippable, 1000).has_value());
  Bytes empty = coded;
  for (const int b : {0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x00, 0x01, 0x00, 0x00}) empty.push_back(static_cast<std::byte>(b));
  EXPECT_FALSE(decode(empty, 1000).has_value());
}

TEST_F(ZstdCodec, RefusesAWindowOverItsLimit) {
  // Frame header: no content size, window descriptor for 16 MiB, then one last raw block of one byte.
  Bytes frame;
  for (const int b : {0x28, 0xB5, 0x2F, 0xFD, 0x00, 14 << 3, 0x09, 0x00, 0x00, 0x58})
    frame.push_back(static_cast<std::byte>(b));
  const auto used = decode(frame, 100);
  ASSERT_FALSE(used.has_value());
  EXPECT_NE(used.error().detail.find("window"), std::string::npos);
  frame[5] = static_cast<std::byte>(13 << 3);  // 8 MiB: the same frame is sound
  EXPECT_TRUE(decode(frame, 100).has_value());
}

}  // namespace
}  // namespace gearbox::test
