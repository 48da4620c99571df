#include "gearbox/wire/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace gearbox::wire {
namespace {

TEST(DTypes, AreFoundByNameAndNumber) {
  for (std::uint32_t number = 1; number <= 13; ++number) {
    const auto type = dtype_from(number);
    ASSERT_TRUE(type.has_value());
    EXPECT_EQ(dtype_from(name_of(*type)), type);
    EXPECT_EQ(element_bytes(*type) == 0, *type == DType::bytes);
  }
  EXPECT_FALSE(dtype_from(std::uint32_t{0}).has_value());
  EXPECT_FALSE(dtype_from(std::uint32_t{14}).has_value());
  EXPECT_FALSE(dtype_from(std::string_view("uint8")).has_value());
  EXPECT_EQ(element_bytes(DType::fp16), 2U);
}

TEST(ElementCount, MultipliesAndKnowsEmptyAndScalar) {
  EXPECT_EQ(element_count({2, 3, 4}).value(), 24U);
  EXPECT_EQ(element_count({}).value(), 1U);
  EXPECT_EQ(element_count({5, 0, 7}).value(), 0U);
}

TEST(ElementCount, RefusesWhatNoMemoryHolds) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(element_count({-1}).error().code, Errc::bad_input);
  EXPECT_FALSE(element_count({kMost, kMost}).has_value());
  EXPECT_FALSE(element_count({0, kMost, kMost}).has_value()) << "a zero must not hide the others";
  EXPECT_FALSE(element_count(std::vector<std::int64_t>(9, 1)).has_value());
  EXPECT_TRUE(element_count({std::int64_t{1} << 62}).has_value());
  EXPECT_FALSE(element_count({(std::int64_t{1} << 62) + 1}).has_value());
}

TEST(TensorSpec, MustFitTogether) {
  EXPECT_TRUE(check({"image", DType::uint8, {4, 5, 3}, 60}).has_value());
  EXPECT_TRUE(check({"empty", DType::fp32, {0, 5}, 0}).has_value());
  for (const TensorSpec& bad : {TensorSpec{"image", DType::uint8, {4, 5, 3}, 61}, TensorSpec{"x", DType::fp32, {2}, 9},
                                TensorSpec{"x", DType::fp32, {2}, 4}, TensorSpec{"x", DType::uint8, {-1}, 0},
                                TensorSpec{"text", DType::bytes, {10}, 39}}) {
    const auto refused = check(bad);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::bad_input);
    EXPECT_NE(refused.error().detail.find(bad.name), std::string::npos);
  }
  EXPECT_EQ(check({"", DType::uint8, {1}, 1}).error().code, Errc::bad_name);
  EXPECT_FALSE(check({std::string(33, 'a'), DType::uint8, {1}, 1}).has_value());
}

}  // namespace
}  // namespace gearbox::wire
