#include "gear/fixed.hpp"

#include <gtest/gtest.h>

#include "site.hpp"

namespace gearbox::gear {
namespace {

TEST(Fixed, MovesEachGroupToItsGear) {
  Site site(1);
  site.add("a100-80g", 1);
  site.add("a100-80g", 3);
  Fixed policy(3);
  const auto proposals = site.ask(policy);
  ASSERT_EQ(proposals.size(), 1U);
  EXPECT_EQ(proposals[0].group, site.group(0).id);
  EXPECT_EQ(proposals[0].gear, 3);
}

TEST(Fixed, ZeroLeavesAllAsTheyAre) {
  Site site(1);
  site.add("a100-80g", 5);
  Fixed policy(0);
  EXPECT_TRUE(site.ask(policy).empty());
}

TEST(Fixed, WhatIsClosedIsNotProposed) {
  Site site(1);
  site.add("a100-80g", 1);
  site.gears(0)[2].allowed = false;
  Fixed policy(3);
  EXPECT_TRUE(site.ask(policy).empty());
  site.gears(0)[2].allowed = true;
  site.gears(0)[2].fits = false;
  EXPECT_TRUE(site.ask(policy).empty());
}

}  // namespace
}  // namespace gearbox::gear
