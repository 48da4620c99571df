#include "gear/flexpipe.hpp"

#include <gtest/gtest.h>

#include "site.hpp"

namespace gearbox::gear {
namespace {

class FlexpipeTest : public ::testing::Test {
 protected:
  FlexpipeTest() { site_.add("a100-80g", 2); }
  plugin::GroupView& group() { return site_.group(0); }
  /// 0: none.
  int asked() {
    const auto proposals = site_.ask(policy_);
    if (proposals.empty()) return 0;
    rule_ = proposals[0].rule;
    urgent_ = proposals[0].urgent;
    return proposals[0].gear;
  }

  Site site_{1};
  Flexpipe policy_{FlexpipeLimits()};
  std::string rule_;
  bool urgent_ = false;
};

TEST_F(FlexpipeTest, AQuietGroupStays) {
  EXPECT_EQ(asked(), 0);
}

TEST_F(FlexpipeTest, ALongQueueOnIdleCardsWithGoodLinksGoesOneUp) {
  group().waiting = 51;
  EXPECT_EQ(asked(), 3);
  EXPECT_EQ(rule_, "queue");
  EXPECT_FALSE(urgent_);
  group().waiting = 50;
  EXPECT_EQ(asked(), 0);
  group().waiting = 51;
  group().activity = 0.6;
  EXPECT_EQ(asked(), 0);
  group().activity = -1;
  group().busy_mean = 0.95;
  EXPECT_EQ(asked(), 0) << "without the activity the busy share is looked at";
  group().activity = 0.3;
  group().link_health = 0.8;
  EXPECT_EQ(asked(), 0);
}

TEST_F(FlexpipeTest, WithNoFigureAtAllNothingGoesUp) {
  group().waiting = 500;
  group().activity = group().busy_mean = -1;
  EXPECT_EQ(asked(), 0);
}

TEST_F(FlexpipeTest, BadLinksGoOneDown) {
  group().link_health = 0.39;
  EXPECT_EQ(asked(), 1);
  EXPECT_EQ(rule_, "link");
  group().gear = 1;
  EXPECT_EQ(asked(), 0) << "there is nothing below";
}

TEST_F(FlexpipeTest, BetweenTheTwoThresholdsItStays) {
  group().link_health = 0.5;
  group().waiting = 500;
  EXPECT_EQ(asked(), 0);
}

TEST_F(FlexpipeTest, MemoryComesBeforeEverything) {
  group().gear = 5;
  group().memory_pressure = 0.86;
  group().waiting = 500;
  EXPECT_EQ(asked(), 3);
  EXPECT_EQ(rule_, "memory");
  EXPECT_TRUE(urgent_);
  group().gear = 2;
  EXPECT_EQ(asked(), 0) << "low enough, and nothing else may happen";
}

TEST_F(FlexpipeTest, ClosedGearsAreStepped) {
  group().waiting = 500;
  site_.gears(0)[2].fits = false;
  EXPECT_EQ(asked(), 4);
  group().gear = 5;
  group().memory_pressure = 0.9;
  EXPECT_EQ(asked(), 2);
}

}  // namespace
}  // namespace gearbox::gear
