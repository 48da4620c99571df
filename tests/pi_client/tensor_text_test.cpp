#include "tensor_text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <boost/json/parse.hpp>
#include <limits>

namespace gearbox::client {
namespace {

template <class Unsigned>
Bytes packed(std::initializer_list<Unsigned> values) {
  Bytes bytes(values.size() * sizeof(Unsigned));
  std::size_t at = 0;
  for (const Unsigned value : values) {
    store_le(&bytes[at], value);
    at += sizeof(Unsigned);
  }
  return bytes;
}

wire::TensorSpec spec_of(wire::DType type, std::vector<std::int64_t> shape, std::size_t bytes) {
  wire::TensorSpec spec;
  spec.name = "t";
  spec.dtype = type;
  spec.shape = std::move(shape);
  spec.bytes = bytes;
  return spec;
}

std::string json_of(const wire::TensorSpec& spec, const Bytes& bytes) {
  std::string out;
  const Outcome<void> appended = append_json_elements(out, spec, bytes);
  return appended ? out : "error " + describe(appended.error());
}

Bytes text_elements(const std::vector<std::string>& elements) {
  Bytes bytes;
  for (const std::string& element : elements) {
    std::array<std::byte, 4> length{};
    store_le(length.data(), static_cast<std::uint32_t>(element.size()));
    bytes.insert(bytes.end(), length.begin(), length.end());
    const ByteView view = view_of(element);
    bytes.insert(bytes.end(), view.begin(), view.end());
  }
  return bytes;
}

TEST(TensorText, KeepsEveryPositionOfSpecialFloats) {
  const Bytes bytes = packed<std::uint32_t>({std::bit_cast<std::uint32_t>(1.5F), 0x7FC00000U, 0x7F800000U, 0xFF800000U,
                                             0x80000000U, 0x00000001U, 0x7FA00000U});
  const std::string json = json_of(spec_of(wire::DType::fp32, {7}, bytes.size()), bytes);
  EXPECT_EQ(json, R"([1.5,"NaN","Infinity","-Infinity",-0.0,1e-45,"NaN"])");
  boost::system::error_code failed;
  const boost::json::value value = boost::json::parse(json, failed);
  ASSERT_FALSE(failed) << failed.message();
  EXPECT_EQ(value.as_array().size(), 7U);
  EXPECT_TRUE(std::signbit(value.as_array()[4].as_double()));
}

TEST(TensorText, FloatsReadBackAsTheSameValue) {
  const float third = 1.0F / 3.0F;
  const Bytes bytes = packed<std::uint32_t>({std::bit_cast<std::uint32_t>(third), std::bit_cast<std::uint32_t>(1e30F)});
  const std::string json = json_of(spec_of(wire::DType::fp32, {2}, bytes.size()), bytes);
  const boost::json::value value = boost::json::parse(json);
  EXPECT_EQ(static_cast<float>(value.as_array()[0].as_double()), third);
  EXPECT_EQ(static_cast<float>(value.as_array()[1].as_double()), 1e30F);
}

TEST(TensorText, HalfFloatsOfEveryKind) {
  // 1, -2, largest, smallest denormal, infinity, NaN
  const Bytes bytes = packed<std::uint16_t>({0x3C00, 0xC000, 0x7BFF, 0x0001, 0x7C00, 0x7E00});
  EXPECT_EQ(json_of(spec_of(wire::DType::fp16, {6}, bytes.size()), bytes),
            R"([1.0,-2.0,65504.0,5.9604645e-08,"Infinity","NaN"])");
}

TEST(TensorText, IntegersOfEveryWidthAndSign) {
  const Bytes u64 = packed<std::uint64_t>({~0ULL, 0ULL});
  EXPECT_EQ(json_of(spec_of(wire::DType::uint64, {2}, 16), u64), "[18446744073709551615,0]");
  EXPECT_EQ(json_of(spec_of(wire::DType::int64, {2}, 16), u64), "[-1,0]");
  const Bytes u8 = packed<std::uint8_t>({0, 127, 128, 255});
  EXPECT_EQ(json_of(spec_of(wire::DType::uint8, {2, 2}, 4), u8), "[0,127,128,255]");
  EXPECT_EQ(json_of(spec_of(wire::DType::int8, {2, 2}, 4), u8), "[0,127,-128,-1]");
  EXPECT_EQ(json_of(spec_of(wire::DType::boolean, {4}, 4), u8), "[false,true,true,true]");
  EXPECT_EQ(json_of(spec_of(wire::DType::int16, {2}, 4), u8), "[32512,-128]");
}

TEST(TensorText, TextThatIsNotUtf8IsMarkedAndWhole) {
  const Bytes bytes = text_elements({"plain", "a\"b\\\n\x01", "\xFF\xFE", "", "caf\xC3\xA9"});
  const std::string json = json_of(spec_of(wire::DType::bytes, {5}, bytes.size()), bytes);
  EXPECT_EQ(json, R"(["plain","a\"b\\\n\u0001",{"base64":"//4="},"",)"
                  "\"caf\xC3\xA9\"]");
  boost::system::error_code failed;
  boost::json::parse(json, failed);
  EXPECT_FALSE(failed) << failed.message();
}

TEST(TensorText, RefusesLengthsThatDoNotFit) {
  Bytes bytes = text_elements({"one", "two"});
  EXPECT_FALSE(split_bytes(spec_of(wire::DType::bytes, {3}, bytes.size()), bytes));
  store_le(&bytes[0], std::uint32_t{0xFFFFFFFF});
  EXPECT_EQ(split_bytes(spec_of(wire::DType::bytes, {2}, bytes.size()), bytes).error().code, Errc::bad_result);
  bytes.resize(2);
  EXPECT_FALSE(split_bytes(spec_of(wire::DType::bytes, {1}, bytes.size()), bytes));
  EXPECT_EQ(json_of(spec_of(wire::DType::fp32, {2}, 8), Bytes(7)).substr(0, 16), "error bad_result");
}

TEST(TensorText, Base64OfEveryTail) {
  EXPECT_EQ(to_base64(view_of("")), "");
  EXPECT_EQ(to_base64(view_of("f")), "Zg==");
  EXPECT_EQ(to_base64(view_of("fo")), "Zm8=");
  EXPECT_EQ(to_base64(view_of("foo")), "Zm9v");
  EXPECT_EQ(to_base64(view_of("foobar")), "Zm9vYmFy");
}

TEST(TensorText, PreviewIsShort) {
  const Bytes bytes = packed<std::uint32_t>({0x7FC00000U, 0U, 0U});
  EXPECT_EQ(preview(spec_of(wire::DType::fp32, {3}, 12), bytes, 2).value(), "NaN 0.0 …");
}

}  // namespace
}  // namespace gearbox::client
