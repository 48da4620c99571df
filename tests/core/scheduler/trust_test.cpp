#include "scheduler/trust.hpp"

#include <gtest/gtest.h>

namespace gearbox::scheduler {
namespace {

TEST(Trust, IsLostFastAndEarnedSlowly) {
  const TrustRules rules;
  Trust trust;
  int lost = 0;
  while (!trust.distrusted()) {
    trust.add({.failed = true}, rules);
    ++lost;
    ASSERT_LT(lost, 100);
  }
  int earned = 0;
  while (trust.distrusted()) {
    trust.add({}, rules);
    ++earned;
    ASSERT_LT(earned, 1000);
  }
  EXPECT_GT(earned, 3 * lost);
  EXPECT_GT(trust.value(), rules.high);
}

TEST(Trust, OneFailureIsForgiven) {
  Trust trust;
  trust.add({.failed = true}, TrustRules());
  EXPECT_FALSE(trust.distrusted());
}

TEST(Trust, ALinkThatCrawlsIsDistrusted) {
  Trust trust;
  for (int i = 0; i < 30; ++i) trust.add({.bandwidth_share = 0.1}, TrustRules());
  EXPECT_TRUE(trust.distrusted());
  EXPECT_NEAR(trust.value(), 0.1, 0.05);
}

TEST(Trust, BetweenTheThresholdsItStaysAsItWas) {
  const TrustRules rules;
  Trust good, bad;
  for (int i = 0; i < 30; ++i) bad.add({.failed = true}, rules);
  for (int i = 0; i < 1000; ++i) {
    good.add({.bandwidth_share = 0.65}, rules);
    bad.add({.bandwidth_share = 0.65}, rules);
  }
  EXPECT_NEAR(good.value(), bad.value(), 1e-6);
  EXPECT_FALSE(good.distrusted());
  EXPECT_TRUE(bad.distrusted());
}

TEST(Trust, StrangeSamplesStayInRange) {
  Trust trust;
  trust.add({.bandwidth_share = 1e9}, TrustRules());
  trust.add({.bandwidth_share = -5}, TrustRules());
  EXPECT_GE(trust.value(), 0);
  EXPECT_LE(trust.value(), 1);
}

}  // namespace
}  // namespace gearbox::scheduler
