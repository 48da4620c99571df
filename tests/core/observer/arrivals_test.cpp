#include "observer/arrivals.hpp"

#include <gtest/gtest.h>

namespace gearbox::observer {
namespace {

class ArrivalsTest : public ::testing::Test {
 protected:
  /// `rate` requests a second of `prompt` + `output` tokens, for `span`, looked at each `step`.
  void run(double rate, std::uint64_t prompt, std::uint64_t output, seconds span, milliseconds step = seconds(1)) {
    for (milliseconds time = step; time <= span; time += step) {
      now_ += step;
      owed_ += rate * static_cast<double>(step.count()) / 1000;
      const auto came = static_cast<std::uint64_t>(owed_);
      owed_ -= static_cast<double>(came);
      load_.arrived += came;
      load_.finished += came;
      load_.prompt_tokens += came * prompt;
      load_.output_tokens += came * output;
      arrivals_.add(load_, now_);
    }
  }
  Arrivals arrivals_;
  gear_facts::EngineLoad load_;
  Instant now_ = Instant() + seconds(1000);
  double owed_ = 0;
};

TEST_F(ArrivalsTest, OfOneLookNothingIsKnown) {
  arrivals_.add(load_, now_);
  EXPECT_EQ(arrivals_.fast().requests_per_s, 0);
  EXPECT_TRUE(arrivals_.recent().empty());
}

TEST_F(ArrivalsTest, FastSeesABurstThatSlowSmooths) {
  run(2, 100, 10, seconds(60));
  EXPECT_NEAR(arrivals_.fast().requests_per_s, 2, 0.01);
  run(20, 300, 30, seconds(8));
  EXPECT_NEAR(arrivals_.fast().requests_per_s, 20, 0.01);
  EXPECT_NEAR(arrivals_.slow().requests_per_s, (32 * 2 + 8 * 20) / 40.0, 0.01);
  EXPECT_NEAR(arrivals_.fast().prompt_tokens, 300, 1e-9);
  EXPECT_NEAR(arrivals_.fast().output_tokens, 30, 1e-9);
}

TEST_F(ArrivalsTest, OfAQuietSpanTheLengthsAreThoseOfBefore) {
  run(2, 100, 10, seconds(60));
  run(0, 0, 0, seconds(100));
  EXPECT_EQ(arrivals_.slow().requests_per_s, 0);
  EXPECT_NEAR(arrivals_.slow().prompt_tokens, 100, 1e-9);
  EXPECT_NEAR(arrivals_.slow().output_tokens, 10, 1e-9);
}

TEST_F(ArrivalsTest, RecentWindowsAreWholeAndOldestFirst) {
  run(1, 10, 10, seconds(21));
  run(5, 10, 10, seconds(20));
  const auto recent = arrivals_.recent();
  ASSERT_EQ(recent.size(), 2U);
  EXPECT_NEAR(recent[0].requests_per_s, 1, 0.01);
  EXPECT_NEAR(recent[1].requests_per_s, 5, 0.01);
  run(5, 10, 10, seconds(600));
  EXPECT_EQ(arrivals_.recent().size(), 15U) << "five minutes";
}

TEST_F(ArrivalsTest, TheIntervalOfLooksChangesNothing) {
  run(10, 50, 20, seconds(60), milliseconds(100));
  EXPECT_NEAR(arrivals_.fast().requests_per_s, 10, 0.6);
  EXPECT_EQ(arrivals_.recent().size(), 2U);
}

TEST_F(ArrivalsTest, AnotherEngineBeginsAnew) {
  run(10, 50, 20, seconds(30));
  load_ = {};
  run(1, 50, 20, seconds(10));
  EXPECT_NEAR(arrivals_.slow().requests_per_s, 1, 0.01);
  EXPECT_TRUE(arrivals_.recent().empty());
}

}  // namespace
}  // namespace gearbox::observer
