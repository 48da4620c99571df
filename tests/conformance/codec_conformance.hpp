// codec_conformance.hpp: what codec.hpp promises, as one suite that every codec runs. Include it in one file of a
// program.
//
// Usage: INSTANTIATE_TEST_SUITE_P(Zstd, CodecConformance, ::testing::Values(CodecCase{"zstd", make}), case_name);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gearbox/plugin/codec.hpp"
#include "support/sample_data.hpp"

namespace gearbox::test {

struct CodecCase {
  std::string name;
  std::function<Outcome<std::unique_ptr<plugin::Codec>>()> make;
  int worst_error = 0;  // of a decoded 8-bit sample of natural(); 0 for a lossless codec
};

inline void PrintTo(const CodecCase& one, std::ostream* out) {
  *out << one.name;
}
inline std::string case_name(const ::testing::TestParamInfo<CodecCase>& info) {
  return info.param.name;
}

/// Tiles of every kind that some codec takes, at odd sizes.
inline std::vector<plugin::TileView> sample_tiles() {
  using wire::DType;
  std::vector<plugin::TileView> tiles;
  for (const DType type : {DType::uint8, DType::uint16, DType::int16, DType::fp32}) {
    for (const std::uint32_t channels : {1U, 2U, 3U, 4U}) {
      for (const auto& [rows, width] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
               {1, 1}, {1, 2}, {2, 1}, {3, 15}, {2, 16}, {5, 17}, {7, 31}, {16, 33}, {33, 64}, {8, 131}, {61, 257}}) {
        tiles.push_back(plugin::TileView{type, rows, width, channels});
      }
    }
  }
  tiles.push_back(plugin::TileView{DType::uint8, 1, 100'000, 1});
  return tiles;
}

class CodecConformance : public ::testing::TestWithParam<CodecCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    ASSERT_TRUE(made.has_value()) << describe(made.error());
    codec_ = std::move(made).value();
  }

  /// Coded form of `plain`, with room exactly as long as bound() says and a guard behind it.
  Bytes coded(const plugin::TileView& tile, const Bytes& plain) {
    const std::size_t bound = codec_->bound(plain.size());
    Bytes room(bound + kGuard, kMark);
    const auto used = codec_->encode(tile, plain, ByteSpan(room).first(bound));
    EXPECT_TRUE(used.has_value()) << describe(used.error());
    if (!used) return {};
    EXPECT_LE(used.value(), bound);
    EXPECT_TRUE(guard_is_whole(room, bound)) << "encode wrote past its room";
    room.resize(used.value());
    return room;
  }

  Outcome<std::size_t> decoded(const plugin::TileView& tile, const Bytes& in, Bytes& plain) {
    const std::size_t size = tile.bytes();
    Bytes room(size + kGuard, kMark);
    const auto used = codec_->decode(tile, in, ByteSpan(room).first(size));
    EXPECT_TRUE(guard_is_whole(room, size)) << "decode wrote past its room";
    if (used) {
      EXPECT_LE(used.value(), size);
    }
    room.resize(size);
    plain = std::move(room);
    return used;
  }

  void expect_same(const plugin::TileView& tile, const Bytes& plain, const Bytes& back) {
    if (codec_->lossless()) {
      EXPECT_TRUE(plain == back) << "not the same bytes, " << tile.rows << " x " << tile.width << " x "
                                 << tile.channels;
      return;
    }
    int worst = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      worst = std::max(worst, std::abs(std::to_integer<int>(plain[i]) - std::to_integer<int>(back[i])));
    }
    EXPECT_LE(worst, GetParam().worst_error);
  }

  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kMark{0xA5};
  static bool guard_is_whole(const Bytes& room, std::size_t from) {
    return std::all_of(room.begin() + static_cast<std::ptrdiff_t>(from), room.end(),
                       [](std::byte b) { return b == kMark; });
  }

  std::unique_ptr<plugin::Codec> codec_;
};

TEST_P(CodecConformance, GivesBackTilesOfEveryKindItAcceptsAndTakesAtLeastOneKind) {
  std::mt19937_64 random(1);
  std::size_t accepted = 0;
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile)) continue;
    ++accepted;
    const Bytes plain = natural(random, tile);
    Bytes back;
    const auto used = decoded(tile, coded(tile, plain), back);
    ASSERT_TRUE(used.has_value()) << describe(used.error()) << " for " << tile.rows << " x " << tile.width;
    EXPECT_EQ(used.value(), tile.bytes());
    expect_same(tile, plain, back);
  }
  EXPECT_GE(accepted, 8U);
}

TEST_P(CodecConformance, KeepsItsBoundAndItsPromiseOnNoise) {
  std::mt19937_64 random(2);
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile)) continue;
    const Bytes plain = random_bytes(random, tile.bytes());
    Bytes back;
    const auto used = decoded(tile, coded(tile, plain), back);
    ASSERT_TRUE(used.has_value()) << describe(used.error());
    EXPECT_EQ(used.value(), tile.bytes());
    if (codec_->lossless()) expect_same(tile, plain, back);
  }
}

TEST_P(CodecConformance, KeepsExtremesWhenLossless) {
  if (!codec_->lossless()) return;
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile)) continue;
    for (const int pattern : {0, 1, 2}) {
      Bytes plain(tile.bytes());
      for (std::size_t i = 0; i < plain.size(); ++i) {
        plain[i] = pattern == 0       ? std::byte{0}
                   : pattern == 1     ? std::byte{0xFF}
                   : (i / 2) % 2 == 0 ? std::byte{0xFF}
                                      : std::byte{0};
      }
      Bytes back;
      ASSERT_TRUE(decoded(tile, coded(tile, plain), back).has_value());
      expect_same(tile, plain, back);
    }
  }
}

TEST_P(CodecConformance, RefusesEveryCutOfATile) {
  std::mt19937_64 random(3);
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile) || tile.rows != 16) continue;
    const Bytes whole = coded(tile, natural(random, tile));
    for (std::size_t length = 0; length < whole.size(); length += 1 + length / 16) {
      Bytes back;
      const auto used = decoded(tile, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), back);
      ASSERT_FALSE(used.has_value() && used.value() == tile.bytes()) << length << " of " << whole.size();
      if (!used) {
        EXPECT_EQ(used.error().code, Errc::corrupt_data);
        EXPECT_FALSE(used.error().detail.empty());
      }
    }
  }
}

TEST_P(CodecConformance, RefusesBytesBehindTheEnd) {
  std::mt19937_64 random(4);
  std::size_t tried = 0;
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile) || tile.rows < 5) continue;
    Bytes whole = coded(tile, natural(random, tile));
    Bytes back;
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    const auto one = decoded(tile, longer, back);
    ASSERT_FALSE(one.has_value());
    EXPECT_EQ(one.error().code, Errc::corrupt_data);
    longer = whole;
    longer.insert(longer.end(), whole.begin(), whole.end());
    EXPECT_FALSE(decoded(tile, longer, back).has_value()) << "two in one";
    ++tried;
  }
  EXPECT_GT(tried, 0U);
}

TEST_P(CodecConformance, SurvivesDamageAndStillWorks) {
  std::mt19937_64 random(5);
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile) || tile.rows < 5) continue;
    const Bytes plain = natural(random, tile);
    const Bytes whole = coded(tile, plain);
    for (int round = 0; round < 60; ++round) {
      Bytes back;
      const auto used = decoded(tile, mutated(random, whole), back);
      if (!used) {
        EXPECT_EQ(used.error().code, Errc::corrupt_data);
      }
    }
    Bytes back;
    ASSERT_TRUE(decoded(tile, whole, back).has_value()) << "after damage";
    expect_same(tile, plain, back);
  }
}

TEST_P(CodecConformance, SurvivesNoiseInsteadOfATile) {
  std::mt19937_64 random(6);
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile)) continue;
    for (int round = 0; round < 10; ++round) {
      Bytes back;
      const auto used = decoded(tile, random_bytes(random, random() % 300), back);
      if (!used) {
        EXPECT_EQ(used.error().code, Errc::corrupt_data);
      }
    }
  }
}

TEST_P(CodecConformance, RefusesATileWithLessRoomThanItTakes) {
  std::mt19937_64 random(7);
  for (const plugin::TileView& tile : sample_tiles()) {
    if (!codec_->accepts(tile) || tile.rows < 16) continue;
    const Bytes whole = coded(tile, natural(random, tile));
    Bytes room(tile.bytes() - 1 + kGuard, kMark);
    const auto used = codec_->decode(tile, whole, ByteSpan(room).first(tile.bytes() - 1));
    ASSERT_FALSE(used.has_value());
    EXPECT_EQ(used.error().code, Errc::corrupt_data);
    EXPECT_TRUE(guard_is_whole(room, tile.bytes() - 1));
  }
}

}  // namespace gearbox::test
