#include <gtest/gtest.h>

#include "gearbox/gears/price.hpp"
#include "seven_billion.hpp"

namespace gearbox::gears {
namespace {

constexpr Layout kData{8, 1, 1, 1};
constexpr Layout kTensor4{2, 4, 1, 1};

SteadyState at(double per_s, const Layout& layout, const char* card = "a100-80g", double slowdown = 1) {
  return steady_state({per_s, 720, 240}, seven_billion(), *card_named(card), layout, slowdown);
}

TEST(SteadyState, AtLowLoadWideTensorParallelAnswersFirst) {
  EXPECT_LT(at(0.5, kTensor4).latency_s, 0.7 * at(0.5, kData).latency_s);
}

TEST(SteadyState, NearSaturationDataParallelCarriesMore) {
  EXPECT_GT(at(1, kData).capacity_per_s, 1.2 * at(1, kTensor4).capacity_per_s);
}

TEST(SteadyState, LatencyRisesWithTheDemandUpToTheCapacity) {
  const double most = at(1, kData).capacity_per_s;
  double last = 0;
  for (double share = 0.05; share < 1; share += 0.05) {
    const SteadyState state = at(share * most, kData);
    ASSERT_TRUE(state.stable) << share;
    EXPECT_GE(state.latency_s, last) << share;
    EXPECT_GE(state.busy, 0);
    EXPECT_LE(state.busy, 1);
    last = state.latency_s;
  }
  EXPECT_FALSE(at(1.01 * most, kData).stable);
}

TEST(SteadyState, ASlowLinkTakesCapacityFromWideGears) {
  EXPECT_LT(at(1, kTensor4, "a100-80g", 30).capacity_per_s, 0.5 * at(1, kTensor4).capacity_per_s);
  EXPECT_DOUBLE_EQ(at(1, kData, "a100-80g", 30).capacity_per_s, at(1, kData).capacity_per_s);
}

TEST(SteadyState, WhatDoesNotFitHasNoCapacity) {
  ModelShape large = seven_billion();
  large.parameters *= 4;
  const Demand demand{0.1, 720, 240};
  EXPECT_EQ(steady_state(demand, large, *card_named("rtx3090"), kData).capacity_per_s, 0);
  EXPECT_GT(steady_state(demand, large, *card_named("rtx3090"), {1, 4, 1, 2}).capacity_per_s, 0);
}

TEST(SteadyState, NoDemandIsNoLoad) {
  const SteadyState idle = at(0, kData);
  EXPECT_TRUE(idle.stable);
  EXPECT_EQ(idle.busy, 0);
  EXPECT_GT(idle.latency_s, 0) << "of the one request that may come";
}

}  // namespace
}  // namespace gearbox::gears
