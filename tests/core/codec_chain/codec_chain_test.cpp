#include "gearbox/link/codec_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/image_delta.hpp"
#include "codec/jpeg_codec.hpp"
#include "codec/zstd_codec.hpp"
#include "support/sample_data.hpp"

namespace gearbox::link {
namespace {

using test::mutated;
using test::natural;
using test::random_bytes;
using wire::DType;
using wire::TensorSpec;

NamedCodec zstd() {
  return {"zstd", std::shared_ptr<plugin::Codec>(codec::ZstdCodec::create({}).value())};
}
NamedCodec delta() {
  return {"image_delta", std::shared_ptr<plugin::Codec>(codec::ImageDelta::create().value())};
}
NamedCodec jpeg() {
  return {"jpeg", std::shared_ptr<plugin::Codec>(codec::JpegCodec::create(90).value())};
}

TensorSpec spec_of(DType type, std::vector<std::int64_t> shape) {
  TensorSpec spec{"image", type, std::move(shape), 0};
  spec.bytes = wire::element_count(spec.shape).value() * wire::element_bytes(type);
  return spec;
}

Bytes picture(const TensorSpec& spec) {
  std::mt19937_64 random(1);
  const auto channels = spec.shape.size() == 3 ? static_cast<std::uint32_t>(spec.shape[2]) : 1;
  return natural(random, {spec.dtype, static_cast<std::uint32_t>(spec.shape[0]),
                          static_cast<std::uint32_t>(spec.shape[1]), channels});
}

std::vector<Bytes> encode_all(CodecChain& chain, const Bytes& plain) {
  std::vector<Bytes> tiles;
  Bytes room(chain.coded_bound());
  for (std::size_t i = 0; i < chain.layout().count(); ++i) {
    const auto used = chain.encode(i, plain, room);
    EXPECT_TRUE(used.has_value()) << describe(used.error());
    if (!used) return {};
    EXPECT_LE(used.value(), wire::kMaxPayloadBytes);
    tiles.emplace_back(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(used.value()));
  }
  return tiles;
}

void expect_round_trip(const TensorSpec& spec, const Bytes& plain, std::vector<NamedCodec> codecs) {
  auto chain = CodecChain::create(spec, std::move(codecs));
  ASSERT_TRUE(chain.has_value()) << describe(chain.error());
  const std::vector<Bytes> tiles = encode_all(chain.value(), plain);
  Bytes back(plain.size());
  for (std::size_t i = tiles.size(); i-- > 0;) {  // any order will do
    const auto decoded = chain.value().decode(i, tiles[i], back);
    ASSERT_TRUE(decoded.has_value()) << describe(decoded.error());
  }
  EXPECT_TRUE(back == plain);
}

// A codec that lies, for what a chain must not believe.
class Liar final : public plugin::Codec {
 public:
  std::size_t claimed_bound = 100;
  std::size_t claimed_used = 0;
  bool any_bytes = true;
  bool lossless() const override { return true; }
  bool takes_any_bytes() const override { return any_bytes; }
  bool accepts(const plugin::TileView&) const override { return true; }
  std::size_t bound(std::size_t) const override { return claimed_bound; }
  Outcome<std::size_t> encode(const plugin::TileView&, ByteView, ByteSpan) override { return claimed_used; }
  Outcome<std::size_t> decode(const plugin::TileView&, ByteView, ByteSpan) override { return claimed_used; }
};

TEST(TileLayout, CutsAPictureIntoBandsOfWholeRows) {
  const auto layout = TileLayout::of(spec_of(DType::uint8, {900, 1352, 3})).value();
  ASSERT_TRUE(layout.is_picture());
  EXPECT_EQ(layout.tile(0).rows, 96U);  // 96 rows of 4,056 bytes; in sixteens
  EXPECT_EQ(layout.count(), 10U);
  EXPECT_EQ(layout.tile(9).rows, 900U - 9 * 96);
  EXPECT_EQ(layout.offset(9), 9U * 96 * 4056);
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < layout.count(); ++i) {
    EXPECT_EQ(layout.offset(i), all);
    EXPECT_LE(layout.bytes(i), wire::kTileBytes);
    all += layout.bytes(i);
  }
  EXPECT_EQ(all, layout.plain_bytes());
}

TEST(TileLayout, CoversEveryTensorOnceWithoutAGap) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> shape;
    const std::size_t rank = random() % 5;
    for (std::size_t k = 0; k < rank; ++k) shape.push_back(static_cast<std::int64_t>(random() % (k == 2 ? 6 : 700)));
    const TensorSpec spec = spec_of(random() % 2 == 0 ? DType::uint8 : DType::fp32, shape);
    const auto layout = TileLayout::of(spec);
    ASSERT_TRUE(layout.has_value());
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < layout.value().count(); ++i) {
      ASSERT_EQ(layout.value().offset(i), at);
      ASSERT_GT(layout.value().bytes(i), 0U);
      ASSERT_LE(layout.value().bytes(i), wire::kTileBytes);
      at += layout.value().bytes(i);
    }
    EXPECT_EQ(at, spec.bytes);
  }
}

TEST(TileLayout, TreatsWhatIsNoPictureAsPlainBytes) {
  for (const TensorSpec& spec : {spec_of(DType::fp32, {1, 3, 224, 224}), spec_of(DType::uint8, {1'000'000}),
                                 spec_of(DType::uint8, {3, 480, 640}), spec_of(DType::uint8, {2, 400'000})}) {
    const auto layout = TileLayout::of(spec).value();
    EXPECT_FALSE(layout.is_picture());
    EXPECT_EQ(layout.tile(0).dtype, DType::uint8);
    EXPECT_EQ(layout.tile(0).rows, 1U);
    EXPECT_EQ(layout.tile(0).width, wire::kTileBytes);
  }
  TensorSpec text{"text", DType::bytes, {3}, 40};
  EXPECT_EQ(TileLayout::of(text).value().tile(0).width, 40U);
}

TEST(TileLayout, RefusesASpecThatContradictsItself) {
  TensorSpec spec = spec_of(DType::uint8, {10, 10, 3});
  spec.bytes = 299;
  EXPECT_EQ(TileLayout::of(spec).error().code, Errc::bad_input);
}

TEST(CodecChain, GivesBackPicturesOfOddSizes) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1, 1, 3}, {1, 7, 3}, {77, 31, 3}, {641, 479, 3}, {500, 333, 4}, {2, 100'000, 3}}) {
    const TensorSpec spec = spec_of(DType::uint8, shape);
    expect_round_trip(spec, picture(spec), {delta(), zstd()});
  }
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{480, 640}, {481, 639}, {3, 1}, {479, 641, 1}}) {
    const TensorSpec spec = spec_of(DType::uint16, shape);
    expect_round_trip(spec, picture(spec), {delta(), zstd()});
  }
}

TEST(CodecChain, GivesBackNoiseAndTensorsThatAreNoPictures) {
  std::mt19937_64 random(3);
  for (const TensorSpec& spec : {spec_of(DType::uint8, {300, 500, 3}), spec_of(DType::uint16, {300, 500})}) {
    expect_round_trip(spec, random_bytes(random, spec.bytes), {delta(), zstd()});
  }
  for (const TensorSpec& spec :
       {spec_of(DType::fp32, {1, 3, 224, 224}), spec_of(DType::uint8, {1'000'000}), spec_of(DType::int64, {5})}) {
    expect_round_trip(spec, random_bytes(random, spec.bytes), {zstd()});
  }
}

TEST(CodecChain, MakesPicturesMuchSmaller) {
  const TensorSpec colour = spec_of(DType::uint8, {600, 800, 3});
  auto chain = CodecChain::create(colour, {delta(), zstd()}).value();
  EXPECT_LT(chain.try_ratio(picture(colour)).value(), 0.5);
  const TensorSpec noise = spec_of(DType::uint8, {1'000'000});
  std::mt19937_64 random(4);
  auto plain = CodecChain::create(noise, {zstd()}).value();
  EXPECT_GT(plain.try_ratio(random_bytes(random, noise.bytes)).value(), 0.99);
}

TEST(CodecChain, CodesAWholePictureAsJpegBands) {
  const TensorSpec spec = spec_of(DType::uint8, {333, 640, 3});
  auto chain = CodecChain::create(spec, {jpeg()}).value();
  EXPECT_FALSE(chain.lossless());
  const Bytes plain = picture(spec);
  const auto tiles = encode_all(chain, plain);
  Bytes back(plain.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) ASSERT_TRUE(chain.decode(i, tiles[i], back).has_value());
  double error = 0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    error += std::abs(std::to_integer<int>(plain[i]) - std::to_integer<int>(back[i]));
  EXPECT_LT(error / static_cast<double>(plain.size()), 6);
}

TEST(CodecChain, WritesNowhereButIntoItsTile) {
  std::mt19937_64 random(5);
  const TensorSpec spec = spec_of(DType::uint8, {300, 640, 3});
  auto chain = CodecChain::create(spec, {delta(), zstd()}).value();
  const auto tiles = encode_all(chain, picture(spec));
  ASSERT_EQ(tiles.size(), 2U);
  const auto border = static_cast<std::ptrdiff_t>(chain.layout().offset(1));
  for (int round = 0; round < 200; ++round) {
    Bytes back(spec.bytes, std::byte{0x5A});
    const std::size_t tile = random() % 2;
    const auto decoded = chain.decode(tile, mutated(random, tiles[random() % 2]), back);
    if (!decoded) {
      ASSERT_EQ(decoded.error().code, Errc::corrupt_data);
    }
    const auto from = tile == 0 ? back.begin() + border : back.begin();
    const auto to = tile == 0 ? back.end() : back.begin() + border;
    ASSERT_TRUE(std::all_of(from, to, [](std::byte b) { return b == std::byte{0x5A}; }));
  }
}

TEST(CodecChain, StopsABombAtTheTilesSizeAndNamesThePlace) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const TensorSpec spec = spec_of(DType::uint8, {300, 640, 3});
  for (const bool with_delta : {false, true}) {
    std::vector<NamedCodec> codecs;
    if (with_delta) codecs.push_back(delta());
    codecs.push_back(zstd());
    auto chain = CodecChain::create(spec, std::move(codecs)).value();
    Bytes back(spec.bytes);
    for (const char* name : {"c44_bomb_1GiB.zst", "c44_bomb_64MiB_declared.zst", "c45_declares_1TiB_holds_4B.zst"}) {
      const auto decoded = chain.decode(1, test::read_file(cases / name), back);
      ASSERT_FALSE(decoded.has_value());
      EXPECT_EQ(decoded.error().code, Errc::corrupt_data);
      EXPECT_NE(decoded.error().detail.find("tensor 'image', tile 1 of 2, codec zstd"), std::string::npos)
          << decoded.error().detail;
    }
  }
}

TEST(CodecChain, RefusesATileThatIsSoundButTooShort) {
  const TensorSpec small = spec_of(DType::uint8, {99});
  const TensorSpec spec = spec_of(DType::uint8, {100});
  auto maker = CodecChain::create(small, {zstd()}).value();
  const auto tiles = encode_all(maker, Bytes(99));
  auto chain = CodecChain::create(spec, {zstd()}).value();
  Bytes back(100);
  const auto decoded = chain.decode(0, tiles[0], back);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, Errc::corrupt_data);
  EXPECT_NE(decoded.error().detail.find("99 of 100"), std::string::npos);
}

TEST(CodecChain, RefusesChainsThatCannotWork) {
  const TensorSpec colour = spec_of(DType::uint8, {10, 10, 3});
  EXPECT_FALSE(CodecChain::create(colour, {}).has_value());
  EXPECT_FALSE(CodecChain::create(colour, {zstd(), zstd(), zstd(), zstd(), zstd()}).has_value());
  EXPECT_FALSE(CodecChain::create(colour, {zstd(), delta()}).has_value());
  EXPECT_FALSE(CodecChain::create(spec_of(DType::fp32, {10, 10}), {delta(), zstd()}).has_value());
  EXPECT_FALSE(CodecChain::create(spec_of(DType::uint8, {100}), {delta(), zstd()}).has_value());
  const auto refused = CodecChain::create(spec_of(DType::uint8, {100}), {jpeg()});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::bad_input);
  EXPECT_NE(refused.error().detail.find("codec jpeg"), std::string::npos);
}

TEST(CodecChain, RefusesACodecWhoseBoundDoesNotFitIntoAFrame) {
  auto liar = std::make_shared<Liar>();
  liar->claimed_bound = std::size_t{1} << 60;
  const auto refused = CodecChain::create(spec_of(DType::uint8, {100}), {{"liar", liar}, zstd()});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::bad_input);
}

TEST(CodecChain, DoesNotBelieveACodecThatSaysItWrotePastItsRoom) {
  auto liar = std::make_shared<Liar>();
  liar->claimed_used = 5000;
  auto chain = CodecChain::create(spec_of(DType::uint8, {100}), {{"liar", liar}}).value();
  Bytes room(chain.coded_bound());
  Bytes plain(100);
  EXPECT_EQ(chain.encode(0, plain, room).error().code, Errc::plugin_fault);
  EXPECT_EQ(chain.decode(0, room, plain).error().code, Errc::plugin_fault);
}

TEST(CodecChain, RefusesCallsThatDoNotFitItsTensor) {
  auto chain = CodecChain::create(spec_of(DType::uint8, {100}), {zstd()}).value();
  Bytes room(chain.coded_bound());
  Bytes plain(100);
  Bytes wrong(99);
  EXPECT_EQ(chain.encode(1, plain, room).error().code, Errc::bad_input);
  EXPECT_EQ(chain.encode(0, wrong, room).error().code, Errc::bad_input);
  EXPECT_EQ(chain.decode(7, room, plain).error().code, Errc::bad_input);
}

TEST(CodecChain, HasNoTilesForAnEmptyTensor) {
  auto chain = CodecChain::create(spec_of(DType::uint8, {0, 10, 3}), {delta(), zstd()}).value();
  EXPECT_EQ(chain.layout().count(), 0U);
  EXPECT_EQ(chain.try_ratio({}).value(), 1.0);
}

}  // namespace
}  // namespace gearbox::link
