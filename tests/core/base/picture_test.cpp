#include "gearbox/wire/picture.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/sample_data.hpp"

namespace gearbox::wire {
namespace {

using test::mutated;
using test::read_file;

void append(Bytes& to, std::initializer_list<int> values) {
  for (const int value : values) to.push_back(static_cast<std::byte>(value));
}

/// A JPEG's markers around a scan that no decoder would like; sound to a reader of structure.
Bytes small_jpeg(int width, int height) {
  Bytes file;
  append(file, {0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2});
  append(file, {0xFF, 0xC0, 0, 11, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 1, 0x11, 0});
  append(file, {0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0, 0x12, 0xFF, 0x00, 0x34, 0xFF, 0xD0, 0x56, 0xFF, 0xD9});
  return file;
}

std::string reason(const Outcome<PictureInfo>& outcome) {
  return outcome ? "accepted" : describe(outcome.error());
}

TEST(Picture, TakesGoodSharedPicturesAndSaysWhatTheyAre) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const auto jpeg = check_picture_whole(read_file(cases / "c51_good.jpg"));
  ASSERT_TRUE(jpeg.has_value()) << reason(jpeg);
  EXPECT_EQ(jpeg.value().type, PictureType::jpeg);
  const auto png = check_picture_whole(read_file(cases / "c51_good.png"));
  ASSERT_TRUE(png.has_value()) << reason(png);
  EXPECT_EQ(png.value().type, PictureType::png);
  EXPECT_GT(png.value().width, 0U);
}

TEST(Picture, RefusesEverySharedPictureThatIsCutOrBadOrAbsurd) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  std::size_t refused = 0;
  for (const auto& file : std::filesystem::directory_iterator(cases)) {
    const std::string name = file.path().filename().string();
    if (!(name.starts_with("c51_") || name.starts_with("c52_")) || name.find("_good") != std::string::npos) continue;
    if (name == "c51_png_called.jpg") continue;
    const auto outcome = check_picture_whole(read_file(file.path()));
    ASSERT_FALSE(outcome.has_value()) << name;
    EXPECT_EQ(outcome.error().code, Errc::bad_picture) << name;
    EXPECT_FALSE(outcome.error().detail.empty()) << name;
    ++refused;
  }
  EXPECT_EQ(refused, 13U);
}

TEST(Picture, RefusesAbsurdSizesFromTheHeaderAlone) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  for (const char* name :
       {"c52_claims_100000x100000.png", "c52_claims_65535x65535.jpg", "c52_real_20000x20000_1bit.png"}) {
    const auto outcome = look_at_picture(read_file(cases / name));
    ASSERT_FALSE(outcome.has_value()) << name;
    EXPECT_NE(outcome.error().detail.find("over the limit"), std::string::npos) << outcome.error().detail;
  }
  EXPECT_NE(look_at_picture(read_file(cases / "c52_zero_width.png")).error().detail.find("has none"),
            std::string::npos);
}

TEST(Picture, ToldFromItsNameWhenTheContentIsAnother) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const auto info = check_picture_whole(read_file(cases / "c51_png_called.jpg"));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info.value().type, PictureType::png);
  EXPECT_EQ(check_picture_name(info.value().type, "c51_png_called.jpg").error().code, Errc::bad_picture);
  EXPECT_FALSE(check_picture_name(PictureType::jpeg, "x.PNG").has_value());
  EXPECT_TRUE(check_picture_name(PictureType::jpeg, "photo.JPeG").has_value());
  EXPECT_TRUE(check_picture_name(PictureType::jpeg, "no-ending").has_value());
  EXPECT_TRUE(check_picture_name(PictureType::jpeg, "upload.bin").has_value());
}

TEST(Picture, ReadsRealPhotographs) {
  GEARBOX_SHARED_OR_SKIP(images, "data/images");
  const std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> sizes{
      {"kite.jpg", {1352, 900}}, {"raccoon.png", {1024, 768}}, {"text_sign.jpg", {800, 600}}, {"cat.png", {451, 300}}};
  for (const auto& [name, size] : sizes) {
    const auto info = check_picture_whole(read_file(images / name));
    ASSERT_TRUE(info.has_value()) << name << ": " << reason(info);
    EXPECT_EQ(info.value().width, size.first) << name;
    EXPECT_EQ(info.value().height, size.second) << name;
    EXPECT_EQ(info.value().channels, 3) << name;
    EXPECT_EQ(info.value().bits, 8) << name;
  }
}

TEST(Picture, RefusesRealPhotographsCutAnywhere) {
  GEARBOX_SHARED_OR_SKIP(images, "data/images");
  for (const char* name : {"text_tag.jpg", "cat.png"}) {
    const Bytes whole = read_file(images / name);
    for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 61) {
      ASSERT_FALSE(check_picture_whole(ByteView(whole).first(length)).has_value()) << name << " cut at " << length;
    }
    EXPECT_FALSE(check_picture_whole(ByteView(whole).first(whole.size() - 1)).has_value()) << name;
  }
}

TEST(Picture, SeesAChangedByteAnywhereInAPng) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  const Bytes whole = read_file(cases / "c51_good.png");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes changed = whole;
    changed[at] ^= std::byte{0x10};
    ASSERT_FALSE(check_picture_whole(changed).has_value()) << at;
  }
}

TEST(Picture, FollowsAJpegThroughStuffingAndRestartsToItsEnd) {
  const Bytes whole = small_jpeg(640, 480);
  const auto info = check_picture_whole(whole);
  ASSERT_TRUE(info.has_value()) << reason(info);
  EXPECT_EQ(info.value().width, 640U);
  EXPECT_EQ(info.value().height, 480U);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(check_picture_whole(ByteView(whole).first(length)).has_value()) << length;
  }
  Bytes longer = whole;
  append(longer, {1, 2, 3});
  EXPECT_TRUE(check_picture_whole(longer).has_value()) << "cameras append previews";
}

TEST(Picture, RefusesAJpegWithASecondSize) {
  Bytes file = small_jpeg(640, 480);
  Bytes frame;
  append(frame, {0xFF, 0xC0, 0, 11, 8, 0xFF, 0xFF, 0xFF, 0xFF, 1, 1, 0x11, 0});
  file.insert(file.begin() + 8 + 13, frame.begin(), frame.end());
  EXPECT_TRUE(look_at_picture(file).has_value());
  EXPECT_FALSE(check_picture_whole(file).has_value());
}

TEST(Picture, RefusesAJpegWhoseHeightComesLater) {
  EXPECT_FALSE(look_at_picture(small_jpeg(640, 0)).has_value());
}

TEST(Picture, RefusesCodingsThatDecodersDoNotKnow) {
  Bytes lossless = small_jpeg(64, 48);
  lossless[9] = std::byte{0xC3};
  EXPECT_FALSE(look_at_picture(lossless).has_value());
  Bytes twelve_bits = small_jpeg(64, 48);
  twelve_bits[12] = std::byte{12};
  EXPECT_FALSE(look_at_picture(twelve_bits).has_value());
}

TEST(Picture, TakesTheLimitFromItsCaller) {
  EXPECT_TRUE(look_at_picture(small_jpeg(100, 100), {.max_pixels = 10'000}).has_value());
  EXPECT_FALSE(look_at_picture(small_jpeg(100, 101), {.max_pixels = 10'000}).has_value());
}

TEST(Picture, RefusesWhatIsNoPicture) {
  EXPECT_NE(look_at_picture({}).error().detail.find("empty"), std::string::npos);
  for (const std::string_view text : {"GIF89a", "P6 1 1 255", "\x89PNG", "hello", "\xFF"}) {
    EXPECT_EQ(look_at_picture(view_of(text)).error().code, Errc::bad_picture);
  }
}

TEST(Picture, SurvivesDamage) {
  std::mt19937_64 random(1);
  std::vector<Bytes> seeds{small_jpeg(640, 480)};
  if (const auto cases = test::shared_folder("cases")) {
    seeds.push_back(read_file(*cases / "c51_good.jpg"));
    seeds.push_back(read_file(*cases / "c51_good.png"));
  }
  for (const Bytes& seed : seeds) {
    for (int round = 0; round < 3000; ++round) {
      const auto outcome = check_picture_whole(mutated(random, seed));
      if (!outcome) {
        ASSERT_EQ(outcome.error().code, Errc::bad_picture);
      }
    }
  }
}

}  // namespace
}  // namespace gearbox::wire
