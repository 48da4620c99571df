#include "gearbox/gears/six_gears.hpp"

#include <gtest/gtest.h>

namespace gearbox::gears {
namespace {

TEST(SixGears, AreThoseOfTheElasticEngine) {
  EXPECT_EQ(layout_of(1, 4), (Layout{4, 1, 1, 1}));
  EXPECT_EQ(layout_of(2, 4), (Layout{2, 2, 1, 1}));
  EXPECT_EQ(layout_of(3, 4), (Layout{1, 4, 1, 1}));
  EXPECT_EQ(layout_of(4, 4), (Layout{1, 1, 4, 1}));
  EXPECT_EQ(layout_of(5, 4), (Layout{1, 1, 1, 4}));
  EXPECT_EQ(layout_of(6, 4), (Layout{1, 2, 1, 2}));
  EXPECT_EQ(layout_of(3, 8), (Layout{2, 4, 1, 1}));
  EXPECT_EQ(layout_of(6, 8), (Layout{1, 2, 2, 2}));
  for (std::uint8_t gear = 1; gear <= kGears; ++gear) EXPECT_EQ(layout_of(gear, 8)->cards(), 8U);
}

TEST(SixGears, NotEachIsMadeOfAnyNumber) {
  EXPECT_FALSE(layout_of(2, 3));
  EXPECT_FALSE(layout_of(3, 6));
  EXPECT_FALSE(layout_of(6, 2));
  EXPECT_FALSE(layout_of(6, 16));
  EXPECT_FALSE(layout_of(1, 0));
  EXPECT_FALSE(layout_of(0, 4));
  EXPECT_FALSE(layout_of(7, 4));
  EXPECT_TRUE(layout_of(5, 3));
}

TEST(SixGears, AModelMustBeCutSo) {
  const ModelShape small{.layers = 5, .width = 64, .heads = 8, .kv_heads = 2, .head_width = 8, .parameters = 260'000};
  EXPECT_TRUE(layout_of(2, 8, small));
  EXPECT_FALSE(layout_of(3, 8, small)) << "two kv heads for four cards";
  EXPECT_FALSE(layout_of(5, 8, small)) << "five layers for eight stages";
}

TEST(SixGears, HaveWords) {
  EXPECT_EQ(words_of({4, 1, 1, 1}), "4 whole copies");
  EXPECT_EQ(words_of({1, 1, 1, 1}), "1 whole copy");
  EXPECT_EQ(words_of({2, 2, 1, 1}), "2 copies, each tensor ×2");
  EXPECT_EQ(words_of({1, 2, 1, 2}), "tensor ×2, pipeline ×2");
  EXPECT_STREQ(gear_name(6), "hybrid");
  EXPECT_STREQ(gear_name(0), "");
}

}  // namespace
}  // namespace gearbox::gears
