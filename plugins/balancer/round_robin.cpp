#include "balancer/round_robin.hpp"

#include "balancer/queue_limit.hpp"

namespace gearbox::balancer {

Outcome<plugin::CandidateId> RoundRobin::pick(const plugin::RequestView&,
                                              std::span<const plugin::CandidateView> candidates, Instant) {
  // By id, not by position: candidates come and go between calls.
  const plugin::CandidateView* first = nullptr;
  const plugin::CandidateView* next = nullptr;
  for (const plugin::CandidateView& candidate : candidates) {
    if (is_full(candidate, queue_limit_)) continue;
    if (first == nullptr) first = &candidate;
    if (next == nullptr && any_yet_ && candidate.id > last_) next = &candidate;
  }
  const plugin::CandidateView* chosen = next != nullptr ? next : first;
  if (chosen == nullptr) {
    return Error{Errc::overloaded, "all " + std::to_string(candidates.size()) +
                                       " candidates are at their queue limit of " + std::to_string(queue_limit_) +
                                       " per worker"};
  }
  any_yet_ = true;
  last_ = chosen->id;
  return chosen->id;
}

}  // namespace gearbox::balancer
