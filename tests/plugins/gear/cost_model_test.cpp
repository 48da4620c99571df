#include "gear/cost_model.hpp"
#include "gear/assignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "site.hpp"

namespace gearbox::gear {
namespace {

/// Four nodes of A100s, two of V100s, two of RTX 3090s.
Site mixed(double requests_per_s, std::uint8_t gear) {
  Site site(requests_per_s);
  for (int i = 0; i < 4; ++i) site.add("a100-80g", gear);
  for (int i = 0; i < 2; ++i) site.add("v100-32g", gear);
  for (int i = 0; i < 2; ++i) site.add("rtx3090", gear);
  return site;
}

TEST(CostModel, AtLowLoadFastCardsGoWide) {
  Site site = mixed(0.5, 1);
  CostModel policy{CostModelLimits()};
  EXPECT_GT(site.settle(policy), 0);
  EXPECT_GE(site.group(0).gear, 3);
}

TEST(CostModel, NearSaturationTheyGoBack) {
  Site site = mixed(240, 3);  // gear 3 everywhere carries 192
  CostModel policy{CostModelLimits()};
  EXPECT_GT(site.settle(policy), 0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(site.group(i).gear, 2) << i;
}

TEST(CostModel, EndsInTheSameGearsWhereverItBegins) {
  for (const double load : {0.5, 30.0, 120.0, 200.0}) {
    for (const int begin : {1, 3, 5}) {
      Site site = mixed(load, static_cast<std::uint8_t>(begin));
      CostModel policy{CostModelLimits()};
      ASSERT_GE(site.settle(policy), 0) << "it swings at " << load;
      CostModelLimits any;
      any.least_gain = 2 * CostModelLimits().least_gain;
      CostModel again{any};
      EXPECT_TRUE(site.ask(again).empty()) << load << " from gear " << begin;
    }
  }
}

TEST(CostModel, TwoAtOnceTheEmptiestCachesFirst) {
  Site site = mixed(0.5, 1);
  for (std::size_t i = 0; i < 8; ++i) site.group(i).cached_tokens = 1000 - 100 * i;
  CostModel policy{CostModelLimits()};
  const auto proposals = site.ask(policy);
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_GT(proposals[0].group, proposals[1].group);
  EXPECT_EQ(proposals[0].rule, "price");
  EXPECT_EQ(proposals[0].priced.size(), 6U);
  EXPECT_NE(proposals[0].runner_up, 0);
  EXPECT_NE(proposals[0].runner_up, proposals[0].gear);
}

/// The governor refuses what gains less than 4 %: of a hundred groups no single one gains so much.
TEST(CostModel, OfManyGroupsTheWholeGainIsTold) {
  Site site(5);
  for (int i = 0; i < 100; ++i) site.add("a100-80g", 1);
  CostModel policy{CostModelLimits()};
  const auto proposals = site.ask(policy);
  ASSERT_FALSE(proposals.empty());
  for (const auto& proposal : proposals) EXPECT_GT(proposal.gain, 0.04);
}

TEST(CostModel, GroupsThatNobodyNeedsAnswerAsSoonAsTheyCan) {
  Site site = mixed(2, 1);
  CostModel policy{CostModelLimits()};
  EXPECT_GT(site.settle(policy), 0);
  EXPECT_EQ(site.group(4).gear, 3) << "a V100: slower than the A100s in any gear, and soonest in this one";
  EXPECT_NE(site.group(6).gear, 1) << "an RTX 3090";
}

TEST(CostModel, SpareGroupsComeBehindThoseThatMatter) {
  Site site = mixed(2, 1);
  for (std::size_t i = 0; i < 4; ++i) site.group(i).cached_tokens = 1000;
  CostModel policy{CostModelLimits()};
  const auto proposals = site.ask(policy);
  ASSERT_EQ(proposals.size(), 2U);
  for (const auto& proposal : proposals) {
    EXPECT_EQ(proposal.rule, "price");
    EXPECT_LT(static_cast<std::uint32_t>(proposal.group), 40U) << "an A100";
  }
}

TEST(CostModel, AShiftThatCostsMoreThanItGainsIsNotProposed) {
  Site site = mixed(0.5, 1);
  for (std::size_t i = 0; i < 8; ++i) {
    site.group(i).pause_s = 300;
    site.group(i).running = 20;
  }
  CostModel policy{CostModelLimits()};
  EXPECT_TRUE(site.ask(policy).empty());
  for (std::size_t i = 0; i < 8; ++i) site.group(i).pause_s = 0.05;
  EXPECT_FALSE(site.ask(policy).empty());
}

TEST(CostModel, ASmallGainIsNoReason) {
  Site site = mixed(0.5, 1);
  CostModelLimits limits;
  limits.least_gain = 0.99;
  CostModel policy{limits};
  EXPECT_TRUE(site.ask(policy).empty());
}

TEST(CostModel, AnOverloadIsUrgent) {
  Site site(0);
  site.add("a100-80g", 3);
  CostModel policy{CostModelLimits()};
  double load = 1;
  while (load < 200 && site.settle(policy) >= 0 && site.group(0).gear >= 3) {
    site.group(0).gear = 3;
    load *= 1.2;
    site.load(load);
  }
  site.group(0).gear = 3;
  const auto proposals = site.ask(policy);
  ASSERT_EQ(proposals.size(), 1U);
  site.load(10'000);
  const auto hopeless = site.ask(policy);
  ASSERT_EQ(hopeless.size(), 1U) << "the gear that carries most, although it is not enough";
  EXPECT_TRUE(hopeless[0].urgent);
  EXPECT_EQ(hopeless[0].gear, 1);
  EXPECT_NE(hopeless[0].reason.find("do not either"), std::string::npos) << hopeless[0].reason;
}

// Short prompts, long answers: what runs at once is bound by the caches, and more of them fit where weights are shared
// out.
constexpr plugin::LoadView kBoundByMemory{5, 512, 1024};

TEST(CostModel, ShortMemoryIsRelievedAndNothingElse) {
  Site site = mixed(60, 1);
  site.pool().fast = site.pool().slow = kBoundByMemory;
  site.group(4).memory_pressure = 0.9;
  CostModel policy{CostModelLimits()};
  const auto proposals = site.ask(policy);
  const auto own = std::find_if(proposals.begin(), proposals.end(),
                                [&](const plugin::Proposal& proposal) { return proposal.group == site.group(4).id; });
  ASSERT_NE(own, proposals.end());
  EXPECT_EQ(own->rule, "memory");
  EXPECT_TRUE(own->urgent);
  EXPECT_GE(own->gear, 2) << "a card holds fewer weights there";
}

TEST(CostModel, AGroupShortOfMemoryIsProposedOnce) {
  Site site(0.5);
  site.pool().fast = site.pool().slow = kBoundByMemory;
  site.add("v100-32g", 1).memory_pressure = 0.9;
  CostModel policy{CostModelLimits()};
  const auto proposals = site.ask(policy);
  ASSERT_EQ(proposals.size(), 1U) << "although its price is a reason, too";
  EXPECT_EQ(proposals[0].rule, "memory");
}

TEST(CostModel, AFullCacheIsNotRelievedByAGearThatCarriesLess) {
  Site site(100);
  plugin::GroupView& group = site.add("rtx3090", 1);
  site.pool().fast = site.pool().slow = {100, 2048, 20};  // long prompts, short answers: products bound it, not memory
  group.memory_pressure = 0.99;
  CostModel policy{CostModelLimits()};
  for (const plugin::Proposal& proposal : site.ask(policy)) EXPECT_NE(proposal.rule, "memory") << proposal.reason;
  site.pool().model.layers = 0;  // nobody can tell what carries less
  EXPECT_EQ(site.ask(policy).size(), 1U);
}

TEST(CostModel, AnOverloadIsRememberedAndFades) {
  Site site = mixed(10'000, 3);
  CostModel policy{CostModelLimits()};
  EXPECT_GT(site.settle(policy), 0);
  for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(site.group(i).gear, 1);
  site.load(0.5);
  EXPECT_EQ(site.settle(policy), 0) << "it may come again";
  site.now += std::chrono::hours{24};
  EXPECT_GT(site.settle(policy), 0);
  EXPECT_GE(site.group(0).gear, 3);
}

TEST(CostModel, WhatWasKeptUpWithIsNotRemembered) {
  Site site = mixed(140, 1);
  CostModel policy{CostModelLimits()};
  site.settle(policy);
  ASSERT_LE(site.group(0).gear, 2) << "it takes what carries much";
  site.load(0.5);
  site.settle(policy);
  EXPECT_GE(site.group(0).gear, 3);
}

TEST(CostModel, ALargeGainIsUrgentASmallOneIsNot) {
  Site site(0.5);
  site.add("a100-80g", 1);
  CostModelLimits limits;
  CostModel policy{limits};
  const auto large = site.ask(policy);
  ASSERT_EQ(large.size(), 1U);
  EXPECT_GT(large[0].gain, limits.large_gain);
  EXPECT_TRUE(large[0].urgent);
  limits.large_gain = 0.99;
  CostModel patient{limits};
  ASSERT_EQ(site.ask(patient).size(), 1U);
  EXPECT_FALSE(site.ask(patient)[0].urgent);
}

TEST(Assignment, AGearThatIsClosedPromisesNothing) {
  Site site(0.5);
  plugin::GroupView& group = site.add("a100-80g", 1);
  for (plugin::GearView& gear : site.gears(0)) gear.allowed = gear.number == 1;
  group.gears = site.gears(0);
  const Assignment closed(site.pool(), site.pool().slow, {&group});
  EXPECT_DOUBLE_EQ(closed.latency_best(), closed.latency_now());
  site.gears(0)[2].allowed = true;
  const Assignment open(site.pool(), site.pool().slow, {&group});
  EXPECT_LT(open.latency_best(), 0.8 * open.latency_now());
}

TEST(CostModel, AClosedGearIsNeverProposed) {
  Site site = mixed(0.5, 1);
  for (std::size_t i = 0; i < 8; ++i) {
    for (plugin::GearView& gear : site.gears(i)) {
      if (gear.number != 1 && gear.number != 2) (i % 2 == 0 ? gear.allowed : gear.fits) = false;
    }
  }
  CostModel policy{CostModelLimits()};
  EXPECT_GE(site.settle(policy), 0);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_LE(site.group(i).gear, 2);
}

TEST(CostModel, ABurstThatHasComeBeforeIsExpectedAgain) {
  Site quiet = mixed(0.5, 1);
  Site bursty = mixed(0.5, 1);
  std::array<plugin::LoadView, 6> recent{};
  recent[2] = {300, 872, 218};
  bursty.pool().recent = recent;
  CostModel policy{CostModelLimits()};
  EXPECT_GT(quiet.settle(policy), 0);
  EXPECT_GE(bursty.settle(policy), 0);
  EXPECT_GE(quiet.group(0).gear, 3);
  EXPECT_LE(bursty.group(0).gear, 2);
}

TEST(CostModel, CrawlingLinksMakeWideGearsDear) {
  for (const char* card : {"a100-80g", "v100-32g", "rtx3090"}) {
    Site site(0.5);
    site.add(card, 3).link_slowdown = 60;
    CostModel policy{CostModelLimits()};
    EXPECT_EQ(site.settle(policy), 1) << card;
    EXPECT_EQ(site.group(0).gear, 1) << card;
  }
}

TEST(CostModel, BeforeAnythingHasComeNothingHappens) {
  Site site = mixed(0, 1);
  site.pool().fast = site.pool().slow = {};
  CostModel policy{CostModelLimits()};
  EXPECT_TRUE(site.ask(policy).empty());
}

}  // namespace
}  // namespace gearbox::gear
