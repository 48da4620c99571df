// first_one.hpp: a balancer that says nothing of its own.
#pragma once

#include <span>

#include "gearbox/plugin/balancer.hpp"

namespace gearbox::test_support {

/// Picks the first candidate.
class FirstOne final : public plugin::Balancer {
 public:
  Outcome<plugin::CandidateId> pick(const plugin::RequestView&, std::span<const plugin::CandidateView> candidates,
                                    Instant) override {
    return candidates.front().id;
  }
};

}  // namespace gearbox::test_support
