// balancer_conformance.hpp: what balancer.hpp promises, as one suite that every balancer runs. Include it in one file
// of a program.
//
// Usage: INSTANTIATE_TEST_SUITE_P(RoundRobin, BalancerConformance, ::testing::Values(BalancerCase{"round_robin",
// make}), balancer_name);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gearbox/plugin/balancer.hpp"

namespace gearbox::test {

struct BalancerCase {
  std::string name;
  /// With a limit of `queue_limit` waiting requests per place.
  std::function<std::unique_ptr<plugin::Balancer>(std::uint64_t queue_limit)> make;
};

inline std::string balancer_name(const ::testing::TestParamInfo<BalancerCase>& info) {
  return info.param.name;
}

inline plugin::CandidateView candidate(std::uint32_t id, std::uint32_t queued = 0, std::uint32_t running = 0,
                                       std::uint32_t capacity = 1, std::int64_t p95_us = 0) {
  return {plugin::CandidateId{id}, queued, running, capacity, microseconds{p95_us}};
}

inline constexpr plugin::RequestView kAnyRequest{"task", "model", 0, 0, 0, 0};

/// The id picked; 0 for an error (no test uses id 0).
inline std::uint32_t picked_by(plugin::Balancer& balancer, const std::vector<plugin::CandidateView>& candidates) {
  const auto picked = balancer.pick(kAnyRequest, candidates, Instant{});
  return picked ? static_cast<std::uint32_t>(picked.value()) : 0;
}

class BalancerConformance : public ::testing::TestWithParam<BalancerCase> {};

TEST_P(BalancerConformance, PicksTheOnlyCandidate) {
  const auto balancer = GetParam().make(4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(picked_by(*balancer, {candidate(7)}), 7U);
}

TEST_P(BalancerConformance, EqualCandidatesAllGetTheirShare) {
  const auto balancer = GetParam().make(4);
  std::vector<int> counts(4);
  for (int i = 0; i < 400; ++i) ++counts[picked_by(*balancer, {candidate(1), candidate(2), candidate(3)})];
  EXPECT_EQ(counts[0], 0);
  for (std::size_t id = 1; id <= 3; ++id) EXPECT_NEAR(counts[id], 133, 14) << id;
}

TEST_P(BalancerConformance, SaysOverloadedWhenEachIsAtItsLimit) {
  const auto balancer = GetParam().make(4);
  const std::vector<plugin::CandidateView> full = {candidate(1, 4, 1), candidate(2, 9, 1)};
  const auto picked = balancer->pick(kAnyRequest, full, Instant{});
  ASSERT_FALSE(picked);
  EXPECT_EQ(picked.error().code, Errc::overloaded);
  EXPECT_EQ(picked_by(*balancer, {candidate(1, 4, 1), candidate(2, 3, 1)}), 2U)
      << "and works on when one has a place again";
}

TEST_P(BalancerConformance, TheLimitGrowsWithTheCapacity) {
  const auto balancer = GetParam().make(4);
  EXPECT_EQ(picked_by(*balancer, {candidate(1, 4, 1, 1), candidate(2, 11, 3, 3)}), 2U);
  EXPECT_EQ(picked_by(*balancer, {candidate(1, 4, 1, 1), candidate(2, 12, 3, 3)}), 0U);
}

TEST_P(BalancerConformance, AlwaysPicksOneOfThoseOfferedWhileTheyComeAndGo) {
  const auto balancer = GetParam().make(1000);
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::vector<plugin::CandidateView> candidates;
    std::uint32_t id = 0;
    const std::size_t count = 1 + random() % 6;
    while (candidates.size() < count) {
      id += 1 + static_cast<std::uint32_t>(random() % 5);
      const std::int64_t p95 = random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random());
      candidates.push_back(candidate(id, static_cast<std::uint32_t>(random() % 1500),
                                     static_cast<std::uint32_t>(random() % 4), static_cast<std::uint32_t>(random() % 3),
                                     p95));
    }
    const auto picked = balancer->pick(kAnyRequest, candidates, Instant{});
    if (!picked) {
      EXPECT_EQ(picked.error().code, Errc::overloaded);
      continue;
    }
    EXPECT_TRUE(
        std::any_of(candidates.begin(), candidates.end(), [&](const auto& one) { return one.id == picked.value(); }));
  }
}

TEST_P(BalancerConformance, TheLargestNumbersDoNotOverflow) {
  const auto balancer = GetParam().make(1'000'000);
  constexpr std::uint32_t kMost = 0xFFFFFFFF;
  EXPECT_EQ(picked_by(*balancer,
                      {candidate(1, kMost, kMost, kMost, INT64_MAX), candidate(kMost, kMost, kMost, 1, INT64_MAX)}),
            1U);
}

}  // namespace gearbox::test
