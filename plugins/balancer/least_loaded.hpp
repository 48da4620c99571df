// least_loaded.hpp: the candidate that is expected to finish the request first.
#pragma once

#include <cstdint>

#include "gearbox/plugin/balancer.hpp"

namespace gearbox::balancer {

/// Expected finish = requests there, this one included, per place, times the 95th percentile of a step. One without a
/// sample is taken to be as fast as the fastest known, so that it gets work and thereby samples. Equals take turns.
class LeastLoaded final : public plugin::Balancer {
 public:
  explicit LeastLoaded(std::uint64_t queue_limit) : queue_limit_(queue_limit) {}
  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant now) override;

 private:
  std::uint64_t queue_limit_;
  plugin::CandidateId last_{};
};

}  // namespace gearbox::balancer
