#include "balancer/least_loaded.hpp"

#include <gtest/gtest.h>

namespace gearbox::balancer {
namespace {

plugin::CandidateView candidate(std::uint32_t id, std::uint32_t queued, std::uint32_t running, std::uint32_t capacity,
                                std::int64_t p95_us) {
  return {plugin::CandidateId{id}, queued, running, capacity, microseconds{p95_us}};
}

std::uint32_t pick(LeastLoaded& balancer, std::initializer_list<plugin::CandidateView> candidates) {
  const auto picked =
      balancer.pick({"t", "m", 0, 0, 0, 0}, std::span(candidates.begin(), candidates.size()), Instant{});
  return picked ? static_cast<std::uint32_t>(picked.value()) : 0;
}

TEST(LeastLoaded, PicksTheFewestQueuedAndRunning) {
  LeastLoaded balancer(64);
  EXPECT_EQ(pick(balancer, {candidate(1, 2, 1, 1, 0), candidate(2, 0, 1, 1, 0), candidate(3, 1, 1, 1, 0)}), 2U);
}

TEST(LeastLoaded, AFastCandidateMayHaveTheLongerQueue) {
  LeastLoaded balancer(64);
  EXPECT_EQ(pick(balancer, {candidate(1, 3, 1, 1, 1000), candidate(2, 0, 1, 1, 9000)}), 1U);
}

TEST(LeastLoaded, CountsRequestsPerPlace) {
  LeastLoaded balancer(64);
  EXPECT_EQ(pick(balancer, {candidate(1, 1, 1, 1, 1000), candidate(2, 3, 4, 4, 1000)}), 2U);
}

TEST(LeastLoaded, OneWithoutASampleIsTakenToBeAsFastAsTheFastest) {
  LeastLoaded balancer(64);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 1, 1, 5000), candidate(2, 0, 0, 1, 0)}), 2U);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 0, 1, 5000), candidate(2, 2, 1, 1, 0)}), 1U);
}

TEST(LeastLoaded, EqualsTakeTurnsAlsoWhenOneOfThemGoes) {
  LeastLoaded balancer(64);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 0, 1, 0), candidate(2, 0, 0, 1, 0), candidate(3, 0, 0, 1, 0)}), 1U);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 0, 1, 0), candidate(3, 0, 0, 1, 0)}), 3U);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 0, 1, 0), candidate(2, 0, 0, 1, 0), candidate(3, 0, 0, 1, 0)}), 1U);
  EXPECT_EQ(pick(balancer, {candidate(1, 0, 0, 1, 0), candidate(2, 0, 0, 1, 0), candidate(3, 0, 0, 1, 0)}), 2U);
}

}  // namespace
}  // namespace gearbox::balancer
