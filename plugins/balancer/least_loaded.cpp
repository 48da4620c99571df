#include "balancer/least_loaded.hpp"

#include "balancer/queue_limit.hpp"

namespace gearbox::balancer {

namespace {

/// Microseconds of the fastest candidate that has a sample; 1 when none has, so that then only the numbers of requests
/// count.
double fastest_step(std::span<const plugin::CandidateView> candidates) {
  std::int64_t fastest = 0;
  for (const plugin::CandidateView& candidate : candidates) {
    const std::int64_t step = candidate.step_p95.count();
    if (step > 0 && (fastest == 0 || step < fastest)) fastest = step;
  }
  return fastest == 0 ? 1.0 : static_cast<double>(fastest);
}

}  // namespace

Outcome<plugin::CandidateId> LeastLoaded::pick(const plugin::RequestView&,
                                               std::span<const plugin::CandidateView> candidates, Instant) {
  const double without_sample = fastest_step(candidates);
  const plugin::CandidateView* best = nullptr;
  double best_finish = 0;
  for (const plugin::CandidateView& candidate : candidates) {
    if (is_full(candidate, queue_limit_)) continue;
    const double step =
        candidate.step_p95.count() > 0 ? static_cast<double>(candidate.step_p95.count()) : without_sample;
    const double requests = static_cast<double>(std::uint64_t{candidate.queued} + candidate.running + 1);
    const double finish = requests * step / static_cast<double>(places(candidate));
    // Among equals the first one after the last choice; candidates come sorted by id.
    const bool takes_turn = best != nullptr && finish == best_finish && best->id <= last_ && candidate.id > last_;
    if (best == nullptr || finish < best_finish || takes_turn) {
      best = &candidate;
      best_finish = finish;
    }
  }
  if (best == nullptr) {
    return Error{Errc::overloaded, "all " + std::to_string(candidates.size()) +
                                       " candidates are at their queue limit of " + std::to_string(queue_limit_) +
                                       " per worker"};
  }
  last_ = best->id;
  return best->id;
}

}  // namespace gearbox::balancer
