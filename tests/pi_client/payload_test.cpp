#include "payload.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "codec/image_delta.hpp"
#include "codec/zstd_codec.hpp"
#include "codec_choice.hpp"
#include "gearbox/link/codec_chain.hpp"
#include "gearbox/wire/raw_image.hpp"
#include "support.hpp"

namespace gearbox::client {
namespace {

Outcome<Payload> prepare_file(const std::string& path, std::optional<int> lossy = {}) {
  RequestFiles files;
  files.label = path;
  files.inputs = {InputFile{"image", path}};
  PayloadLimits limits;
  limits.lossy = lossy;
  return prepare(files, limits);
}

std::filesystem::path photograph() {
  return std::filesystem::path(GEARBOX_SOURCE_DIR) / "docs/examples/pictures/ear_tag.jpg";
}

Bytes uploaded(link::UploadSender& sender) {
  Bytes all;
  while (!sender.finished()) {
    const ByteView bytes = sender.next().bytes;
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

TEST(Payload, AJpegTravelsAsItIs) {
  const Outcome<Payload> payload = prepare_file(photograph().string());
  ASSERT_TRUE(payload) << describe(payload.error());
  const wire::InputSpec& input = payload.value().submit.inputs[0];
  EXPECT_EQ(input.tensor.dtype, wire::DType::uint8);
  EXPECT_EQ(input.tensor.shape,
            std::vector<std::int64_t>{static_cast<std::int64_t>(std::filesystem::file_size(photograph()))});
  EXPECT_TRUE(input.codecs.empty());
  EXPECT_TRUE(payload.value().stored);
  EXPECT_EQ(payload.value().submit.wire_bytes, std::filesystem::file_size(photograph()));
}

TEST(Payload, NoiseIsStored) {
  const ScratchFolder scratch;
  const Outcome<Payload> payload = prepare_file(scratch.file("noise.ppm", noise_picture(300, 200)));
  ASSERT_TRUE(payload) << describe(payload.error());
  EXPECT_TRUE(payload.value().submit.inputs[0].codecs.empty());
  EXPECT_EQ(payload.value().submit.wire_bytes, 300U * 200 * 3);
}

TEST(Payload, ARawPictureIsCodedAndComesBackBitForBit) {
  const ScratchFolder scratch;
  const std::string picture = smooth_picture(640, 480);
  Outcome<Payload> payload = prepare_file(scratch.file("smooth.ppm", picture));
  ASSERT_TRUE(payload) << describe(payload.error());
  const wire::InputSpec& input = payload.value().submit.inputs[0];
  ASSERT_EQ(input.codecs, (std::vector<std::string>{"image_delta", "zstd"}));
  EXPECT_LT(payload.value().submit.wire_bytes, picture.size() / 3);

  std::vector<link::NamedCodec> codecs = {
      {"image_delta", std::shared_ptr<plugin::Codec>(codec::ImageDelta::create().value())},
      {"zstd", std::shared_ptr<plugin::Codec>(codec::ZstdCodec::create(codec::ZstdSettings{}).value())}};
  Outcome<link::CodecChain> chain = link::CodecChain::create(input.tensor, std::move(codecs));
  ASSERT_TRUE(chain) << describe(chain.error());
  Bytes plain(input.tensor.bytes);
  for (std::size_t i = 0; i < chain.value().layout().count(); ++i) {
    ASSERT_FALSE(payload.value().sender->finished());
    ASSERT_TRUE(chain.value().decode(i, payload.value().sender->next().bytes, plain));  // one chunk is one tile
  }
  EXPECT_TRUE(payload.value().sender->finished());
  EXPECT_EQ(text_of(plain), std::string_view(picture).substr(picture.size() - plain.size()));
}

TEST(Payload, RawNumbersKeepTheirBits) {
  const std::filesystem::path cases = std::filesystem::path(GEARBOX_SOURCE_DIR) / "../shared/cases";
  if (!std::filesystem::exists(cases)) {
    GTEST_SKIP() << "NOT RUN: no folder " << cases;
  }
  for (const char* name : {"c53_nan.npy", "c53_inf.npy", "c53_negzero_denormal.npy", "c53_signalling_nan.npy"}) {
    Outcome<Payload> payload = prepare_file((cases / name).string());
    ASSERT_TRUE(payload) << name << ": " << describe(payload.error());
    ASSERT_TRUE(payload.value().stored);
    std::ifstream in(cases / name, std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const Bytes sent = uploaded(*payload.value().sender);
    EXPECT_EQ(text_of(sent), std::string_view(file).substr(file.size() - sent.size())) << name;
  }
}

TEST(Payload, LossyIsUsedOnlyWhenAskedFor) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("smooth.ppm", smooth_picture(320, 240));
  EXPECT_EQ(prepare_file(file, 85).value().submit.inputs[0].codecs, std::vector<std::string>{"jpeg"});
  EXPECT_EQ(prepare_file(file).value().submit.inputs[0].codecs.front(), "image_delta");
}

TEST(Payload, DepthFramesAreCoded) {
  const ScratchFolder scratch;
  std::string picture = "P5\n400 300\n65535\n";
  for (unsigned y = 0; y < 300; ++y) {
    for (unsigned x = 0; x < 400; ++x) {
      const unsigned depth = 1000 + x / 4 + y / 3;
      picture.push_back(static_cast<char>(depth >> 8));
      picture.push_back(static_cast<char>(depth & 0xFF));
    }
  }
  const Outcome<Payload> payload = prepare_file(scratch.file("depth.pgm", picture));
  ASSERT_TRUE(payload) << describe(payload.error());
  EXPECT_EQ(payload.value().submit.inputs[0].tensor.dtype, wire::DType::uint16);
  EXPECT_EQ(payload.value().submit.inputs[0].tensor.shape, (std::vector<std::int64_t>{300, 400}));
  EXPECT_FALSE(payload.value().submit.inputs[0].codecs.empty());
  EXPECT_LT(payload.value().submit.wire_bytes, 400U * 300 * 2 / 4);
}

TEST(Payload, SeveralInputsFollowEachOther) {
  const ScratchFolder scratch;
  RequestFiles files;
  files.inputs = {InputFile{"color", scratch.file("c.ppm", noise_picture(10, 10))},
                  InputFile{"depth", scratch.file("d.ppm", noise_picture(20, 10))}};
  Outcome<Payload> payload = prepare(files, {});
  ASSERT_TRUE(payload) << describe(payload.error());
  EXPECT_EQ(payload.value().submit.wire_bytes, 900U);
  EXPECT_EQ(payload.value().submit.digest, payload.value().sender->digest());
  files.inputs[1].tensor = "color";
  EXPECT_EQ(prepare(files, {}).error().code, Errc::bad_input);
}

TEST(Payload, WhatIsNoPictureIsRefusedByName) {
  const ScratchFolder scratch;
  std::ifstream in(photograph(), std::ios::binary);
  const std::string jpeg((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_GT(jpeg.size(), 10'000U);
  const struct {
    std::string name;
    std::string content;
  } kBad[] = {{"empty.jpg", ""},
              {"words.jpg", "this is no picture at all"},
              {"cut.jpg", jpeg.substr(0, jpeg.size() / 2)},
              {"short.jpg", jpeg.substr(0, 3)},
              {"no_end.jpg", jpeg.substr(0, jpeg.size() - 2)},
              {"called.png", jpeg},
              {"cut.ppm", noise_picture(20, 20).substr(0, 500)},
              {"long.ppm", noise_picture(20, 20) + "x"},
              {"huge.ppm", "P6\n100000 100000\n255\nxyz"},
              {"none.ppm", "P6\n0 5\n255\n"}};
  for (const auto& bad : kBad) {
    const std::string path = scratch.file(bad.name, bad.content);
    const Outcome<Payload> payload = prepare_file(path);
    ASSERT_FALSE(payload) << bad.name;
    EXPECT_EQ(payload.error().code, Errc::bad_picture) << bad.name << ": " << payload.error().detail;
    EXPECT_EQ(payload.error().detail.rfind(path, 0), 0U) << payload.error().detail;
  }
}

TEST(Payload, FilesThatCannotBeReadAreNamed) {
  const ScratchFolder scratch;
  const std::string pipe = (scratch.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {scratch.path().string() + "/missing.jpg", scratch.path().string(), pipe, std::string("/dev/zero")}) {
    const Outcome<Payload> payload = prepare_file(path);
    ASSERT_FALSE(payload) << path;
    EXPECT_EQ(payload.error().code, Errc::io_error);
    EXPECT_NE(payload.error().detail.find(path), std::string::npos);
  }
}

}  // namespace
}  // namespace gearbox::client
