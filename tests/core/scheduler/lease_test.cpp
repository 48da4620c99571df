#include "scheduler/lease.hpp"

#include <gtest/gtest.h>

namespace gearbox::scheduler {
namespace {

constexpr milliseconds kTtl{6'000};

class LeaseKeeperTest : public ::testing::Test {
 protected:
  LeaseKeeper keeper_{kTtl};
  Instant now_ = Instant() + seconds(100);
};

TEST_F(LeaseKeeperTest, HoldsNothingBeforeItIsGranted) {
  EXPECT_FALSE(keeper_.holds(now_));
  EXPECT_FALSE(keeper_.term());
}

TEST_F(LeaseKeeperTest, ALeaseLastsFromTheQuestionNotFromTheAnswer) {
  keeper_.answered(LeaseAnswer{true, 3, "a", kTtl}, now_);
  EXPECT_TRUE(keeper_.holds(now_ + kTtl - milliseconds(1)));
  EXPECT_FALSE(keeper_.holds(now_ + kTtl));
  EXPECT_EQ(keeper_.term(), 3U);
}

TEST_F(LeaseKeeperTest, AStoreThatIsAwayTakesNothing) {
  keeper_.answered(LeaseAnswer{true, 3, "a", kTtl}, now_);
  keeper_.answered(Error{Errc::unreachable, "central"}, now_ + seconds(2));
  EXPECT_TRUE(keeper_.holds(now_ + seconds(5)));
  EXPECT_FALSE(keeper_.problem().empty());
  EXPECT_FALSE(keeper_.holds(now_ + seconds(6))) << "and gives nothing";
  EXPECT_EQ(keeper_.term(), 3U) << "it may be renewed late, when nobody else took it";
}

TEST_F(LeaseKeeperTest, ARefusalEndsItAtOnce) {
  keeper_.answered(LeaseAnswer{true, 3, "a", kTtl}, now_);
  keeper_.answered(LeaseAnswer{false, 4, "b", kTtl}, now_ + seconds(1));
  EXPECT_FALSE(keeper_.holds(now_ + seconds(1)));
  EXPECT_FALSE(keeper_.term()) << "the next question is for a new one";
  EXPECT_EQ(keeper_.leader(), "b");
  EXPECT_EQ(keeper_.leaders_term(), 4U);
}

TEST_F(LeaseKeeperTest, AHigherTermThatWasObeyedAsksForANewOne) {
  keeper_.answered(LeaseAnswer{true, 3, "a", kTtl}, now_);
  keeper_.outranked(9);
  EXPECT_FALSE(keeper_.holds(now_));
  EXPECT_EQ(keeper_.above(), 9U);
  keeper_.answered(LeaseAnswer{true, 10, "a", kTtl}, now_);
  EXPECT_TRUE(keeper_.holds(now_));
}

TEST_F(LeaseKeeperTest, AnotherStoreBeginsWithNothingAndAboveWhatWasHeld) {
  keeper_.answered(LeaseAnswer{true, 3, "a", kTtl}, now_);
  keeper_.moved();
  EXPECT_FALSE(keeper_.holds(now_));
  EXPECT_FALSE(keeper_.term());
  EXPECT_EQ(keeper_.above(), 3U);
  EXPECT_EQ(keeper_.leader(), "");
  EXPECT_FALSE(keeper_.problem().empty());
}

}  // namespace
}  // namespace gearbox::scheduler
