#include "balancer/round_robin.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gearbox::balancer {
namespace {

std::uint32_t pick(RoundRobin& balancer, const std::vector<plugin::CandidateView>& candidates) {
  const auto picked = balancer.pick({"t", "m", 0, 0, 0, 0}, candidates, Instant{});
  return picked ? static_cast<std::uint32_t>(picked.value()) : 0;
}

plugin::CandidateView idle(std::uint32_t id) {
  return {plugin::CandidateId{id}, 0, 0, 1, microseconds{0}};
}
plugin::CandidateView full(std::uint32_t id) {
  return {plugin::CandidateId{id}, 64, 1, 1, microseconds{0}};
}

TEST(RoundRobin, GoesThroughAllInOrderWhateverTheirLoad) {
  RoundRobin balancer(64);
  const plugin::CandidateView busy{plugin::CandidateId{2}, 60, 1, 1, microseconds{999}};
  const std::vector<plugin::CandidateView> candidates = {idle(1), busy, idle(5)};
  for (const std::uint32_t expected : {1U, 2U, 5U, 1U, 2U, 5U}) EXPECT_EQ(pick(balancer, candidates), expected);
}

TEST(RoundRobin, LeavesOutThoseThatAreFull) {
  RoundRobin balancer(64);
  for (const std::uint32_t expected : {1U, 3U, 1U}) EXPECT_EQ(pick(balancer, {idle(1), full(2), idle(3)}), expected);
}

TEST(RoundRobin, GoesOnByIdWhenCandidatesComeAndGo) {
  RoundRobin balancer(64);
  EXPECT_EQ(pick(balancer, {idle(1), idle(2), idle(3)}), 1U);
  EXPECT_EQ(pick(balancer, {idle(2), idle(3)}), 2U);
  EXPECT_EQ(pick(balancer, {idle(1), idle(3)}), 3U);
  EXPECT_EQ(pick(balancer, {idle(1), idle(3)}), 1U);
}

}  // namespace
}  // namespace gearbox::balancer
