// round_robin.hpp: one after the other, whatever they are doing, except those that are full.
#pragma once

#include <cstdint>

#include "gearbox/plugin/balancer.hpp"

namespace gearbox::balancer {

class RoundRobin final : public plugin::Balancer {
 public:
  explicit RoundRobin(std::uint64_t queue_limit) : queue_limit_(queue_limit) {}
  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant now) override;

 private:
  std::uint64_t queue_limit_;
  bool any_yet_ = false;
  plugin::CandidateId last_{};
};

}  // namespace gearbox::balancer
