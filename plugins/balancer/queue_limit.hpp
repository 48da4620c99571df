// queue_limit.hpp: when is a candidate full; the same rule for both balancers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gearbox/plugin/balancer.hpp"

namespace gearbox::balancer {

inline constexpr plugin::OptionSpec kQueueLimitOption = {
    .key = "queue_limit",
    .type = plugin::OptionType::integer,
    .fallback = "1024",
    .unit = "requests",
    .help = "waiting requests per worker of a candidate past which pick() answers overloaded",
    .lowest = 1,
    .highest = 1'000'000};

/// Candidates of capacity 0 do not exist by contract; one counts as 1 here, so that nothing is divided by it.
inline std::uint64_t places(const plugin::CandidateView& candidate) {
  return std::max<std::uint32_t>(candidate.capacity, 1);
}

inline bool is_full(const plugin::CandidateView& candidate, std::uint64_t queue_limit) {
  return candidate.queued >= queue_limit * places(candidate);
}

}  // namespace gearbox::balancer
