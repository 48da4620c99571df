#include "replay/gate.hpp"

#include <gtest/gtest.h>

namespace gearbox::replay {
namespace {

Scored scored(double p99, double goodput, double refused = 0) {
  Scored made;
  made.figures = {
      {"p99_s", {p99, p99, p99}}, {"good_share", {goodput, goodput, goodput}}, {"refused", {refused, 0, 0}}};
  return made;
}

bool pass(const Scored& candidate, const Scored& against) {
  return passes(judge(candidate, against, usual_tolerances(0.05)));
}

TEST(Gate, EqualsAndBetterOnesPass) {
  EXPECT_TRUE(pass(scored(2, 0.9), scored(2, 0.9)));
  EXPECT_TRUE(pass(scored(1, 0.95), scored(2, 0.9)));
  EXPECT_TRUE(pass(scored(2.09, 0.9), scored(2, 0.9))) << "within the tolerance";
}

TEST(Gate, WorseOnesDoNotEachForItsFigure) {
  EXPECT_FALSE(pass(scored(2.2, 0.9), scored(2, 0.9)));
  EXPECT_FALSE(pass(scored(2, 0.8), scored(2, 0.9)));
  EXPECT_FALSE(pass(scored(2, 0.9, 1), scored(2, 0.9))) << "one that is refused is one too many";
  const auto verdicts = judge(scored(2.2, 0.95), scored(2, 0.9), usual_tolerances(0.05));
  ASSERT_EQ(verdicts.size(), 3U);
  EXPECT_TRUE(verdicts[0].worse);
  EXPECT_FALSE(verdicts[1].worse) << "less goodput would be worse, not more";
}

TEST(Gate, TinyTimesHaveSomeSlack) {
  EXPECT_TRUE(pass(scored(0.003, 0.9), scored(0.002, 0.9)));
}

TEST(Gate, AFigureThatOneOfThemLacksIsNotJudged) {
  Scored bare;
  bare.figures = {{"p99_s", {1, 1, 1}}};
  EXPECT_EQ(judge(bare, scored(2, 0.9), usual_tolerances(0.05)).size(), 1U);
}

}  // namespace
}  // namespace gearbox::replay
