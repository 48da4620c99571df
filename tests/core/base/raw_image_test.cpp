#include "gearbox/wire/raw_image.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/sample_data.hpp"

namespace gearbox::wire {
namespace {

using test::mutated;
using test::read_file;

std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  const std::size_t length = dictionary.size() + 1;
  file += static_cast<char>(length & 255);
  file += static_cast<char>(length >> 8);
  if (version == 2) file += std::string(2, '\0');
  return file + dictionary + "\n" + data;
}

std::string npy_of(const std::string& type, const std::string& shape, const std::string& data, int version = 1) {
  return npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }", data, version);
}

Outcome<RawImage> read(const std::string& file) {
  return read_raw_image(view_of(file), "image");
}

std::string why(const Outcome<RawImage>& outcome) {
  return outcome ? "accepted" : describe(outcome.error());
}

TEST(RawImage, ReadsNpyOfEitherVersion) {
  for (const int version : {1, 2}) {
    const std::string file = npy_of("<u2", "(2, 3)", "abcdefghijkl", version);
    const auto image = read(file);
    ASSERT_TRUE(image.has_value()) << why(image);
    EXPECT_EQ(image.value().spec.dtype, DType::uint16);
    EXPECT_EQ(image.value().spec.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(image.value().spec.bytes, 12U);
    EXPECT_EQ(text_of(image.value().data), "abcdefghijkl");
    EXPECT_TRUE(image.value().swapped.empty()) << "a view will do";
  }
}

TEST(RawImage, ReadsEveryPlainDtype) {
  const std::pair<const char*, DType> known[] = {{"|b1", DType::boolean}, {"|u1", DType::uint8},  {"|i1", DType::int8},
                                                 {"<i2", DType::int16},   {"<u4", DType::uint32}, {"<i4", DType::int32},
                                                 {"<u8", DType::uint64},  {"<i8", DType::int64},  {"<f2", DType::fp16},
                                                 {"<f4", DType::fp32},    {"<f8", DType::fp64}};
  for (const auto& [code, type] : known) {
    const std::string file = npy_of(code, "(4,)", std::string(4 * element_bytes(type), 'x'));
    const auto image = read(file);
    ASSERT_TRUE(image.has_value()) << code << why(image);
    EXPECT_EQ(image.value().spec.dtype, type);
  }
}

TEST(RawImage, TurnsBigEndianSamplesAround) {
  const std::string file = npy_of(">u4", "(2,)", std::string("\1\2\3\4\5\6\7\x08", 8));
  auto image = read(file);
  ASSERT_TRUE(image.has_value()) << why(image);
  const RawImage moved = std::move(image).value();
  EXPECT_EQ(text_of(moved.data), std::string("\4\3\2\1\x08\7\6\5", 8));
}

TEST(RawImage, KeepsTheBitsOfNumbersThatAreNone) {
  GEARBOX_SHARED_OR_SKIP(cases, "cases");
  for (const char* name : {"c53_inf.npy", "c53_nan.npy", "c53_negzero_denormal.npy", "c53_signalling_nan.npy"}) {
    const Bytes file = read_file(cases / name);
    const auto image = read_raw_image(file, "x");
    ASSERT_TRUE(image.has_value()) << name << why(image);
    const ByteView tail = ByteView(file).last(image.value().spec.bytes);
    EXPECT_TRUE(std::equal(tail.begin(), tail.end(), image.value().data.begin())) << name;
  }
}

TEST(RawImage, RefusesNpyHeadersThatLie) {
  const std::string four(4, 'x');
  const std::string bad[] = {
      npy_of("|u1", "(5,)", four),  // more than there is
      npy_of("|u1", "(3,)", four),  // less
      npy_of("|u1", "(999999999999999999, 999999999999999999)", four),
      npy_of("|u1", "(99999999999999999999,)", four),  // no int64
      npy_of("|u1", "(-4,)", four),
      npy_of("|u1", "(0,)", ""),
      npy_of("|u1", "()", "x"),
      npy_of("|u1", "(1, 1, 1, 1, 4)", four),
      npy_of("|u1", "(4", four),
      npy_of("|u1", "4", four),
      npy_of("|u1", "(4,,)", four),
      npy_of("<u3", "(1,)", four),
      npy_of("|O", "(1,)", four),
      npy_of("|u2", "(2,)", four),
      npy_of("=u2", "(2,)", four),
      npy("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (2,), }", four),
      npy("{'descr': '|u1', 'fortran_order': True, 'shape': (4,), }", four),
      npy("{'descr': '|u1', 'fortran_order': False, }", four),
      npy("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", four),
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'evil': 1}", four),
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), } {", four),
      npy("{'descr': '|u1' 'fortran_order': False, 'shape': (4,), }", four),
      npy("{'descr': '|u1", four),
      npy("", four),
      npy_of("|u1", "(4,)", four, 3),
      std::string("\x93NUMPY\1\0\xFF\xFF{", 11),
      std::string("\x93NUMPY\2\0\xFF\xFF\xFF\xFF{", 13),
      std::string("\x93NUMPY\2\0\xFF", 9),
      std::string("\x93NUMPY", 6),
  };
  for (const std::string& file : bad) {
    const auto outcome = read(file);
    ASSERT_FALSE(outcome.has_value()) << file;
    EXPECT_EQ(outcome.error().code, Errc::bad_picture) << describe(outcome.error());
    EXPECT_FALSE(outcome.error().detail.empty());
  }
}

TEST(RawImage, ReadsGreyAndColourPnm) {
  const std::string grey = "P5\n# made by a camera\n3 2\n# second\n255\nabcdef";
  const auto one = read(grey);
  ASSERT_TRUE(one.has_value()) << why(one);
  EXPECT_EQ(one.value().spec.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(text_of(one.value().data), "abcdef");
  const std::string colour = "P6 1 2 255 abcdef";
  const auto two = read(colour);
  ASSERT_TRUE(two.has_value()) << why(two);
  EXPECT_EQ(two.value().spec.shape, (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(two.value().spec.dtype, DType::uint8);
}

TEST(RawImage, TurnsSixteenBitPnmIntoLittleEndian) {
  const std::string file = "P5 2 1 65535\n" + std::string("\x12\x34\x00\x01", 4);
  const auto image = read(file);
  ASSERT_TRUE(image.has_value()) << why(image);
  EXPECT_EQ(image.value().spec.dtype, DType::uint16);
  EXPECT_EQ(load_le<std::uint16_t>(&image.value().data[0]), 0x1234);
  EXPECT_EQ(load_le<std::uint16_t>(&image.value().data[2]), 1);
}

TEST(RawImage, TakesAFirstSampleThatLooksLikeABlank) {
  const std::string file = "P5 2 1 255\n\n#";
  const auto image = read(file);
  ASSERT_TRUE(image.has_value()) << why(image);
  EXPECT_EQ(text_of(image.value().data), "\n#");
}

TEST(RawImage, RefusesPnmHeadersThatLie) {
  for (const std::string& file :
       {std::string("P5"), std::string("P5 "), std::string("P5 2"), std::string("P5 2 2 255"),
        std::string("P5 2 2 255\nabc"), std::string("P5 2 2 255\nabcde"), std::string("P5 0 2 255\n"),
        std::string("P5 2 2 0\nabcd"), std::string("P5 2 2 65536\nabcdabcd"), std::string("P5 -2 2 255\nabcd"),
        std::string("P6 99999999999999999999 1 255\nabc"), std::string("P6 1000000000 1000000000 255\nabc"),
        std::string("P5X2 2 255\nabcd"), std::string("P4 2 2\nab"), std::string("P5 #") + std::string(100'000, '#'),
        std::string()}) {
    const auto outcome = read(file);
    ASSERT_FALSE(outcome.has_value()) << file.substr(0, 40);
    EXPECT_EQ(outcome.error().code, Errc::bad_picture);
  }
}

TEST(RawImage, ChecksTheTensorsName) {
  const std::string file = "P5 1 1 255\nx";
  EXPECT_EQ(read_raw_image(view_of(file), "../x").error().code, Errc::bad_name);
}

TEST(RawImage, SurvivesDamage) {
  std::mt19937_64 random(1);
  for (const std::string& seed :
       {npy_of("<u2", "(2, 3)", "abcdefghijkl"), npy_of(">f8", "(1, 2, 1, 1)", std::string(16, 'x'), 2),
        std::string("P6\n# c\n2 2\n65535\n") + std::string(24, 'x')}) {
    const ByteView view = view_of(seed);
    for (int round = 0; round < 3000; ++round) {
      const Bytes file = mutated(random, Bytes(view.begin(), view.end()));
      const auto image = read_raw_image(file, "x");
      if (image) {
        ASSERT_EQ(image.value().data.size(), image.value().spec.bytes);
      } else {
        ASSERT_EQ(image.error().code, Errc::bad_picture);
      }
    }
  }
}

}  // namespace
}  // namespace gearbox::wire
