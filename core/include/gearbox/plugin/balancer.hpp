// balancer.hpp: a Balancer chooses one of several candidates: a worker for a request's next step, or a node for a
// device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kBalancerApi = 1;  // raise on any change to this file

enum class CandidateId : std::uint32_t {};

struct CandidateView {  // copied for one call; nothing in it points anywhere
  CandidateId id;
  std::uint32_t queued;  // requests waiting for it, running ones excluded
  std::uint32_t running;
  std::uint32_t capacity;              // requests it can run at once: a worker's max_batch; ready workers for a node
  std::chrono::microseconds step_p95;  // over the last 10 s; zero while there is no sample
};

/// Valid during the call.
struct RequestView {
  std::string_view task;
  std::string_view model;       // empty when a node is chosen
  std::uint64_t payload_bytes;  // 0 when not known yet
  std::uint32_t tenant;
  std::uint8_t priority;
  std::uint8_t attempt;
};

/// Threads: one instance, called on one strand only; must not block. May keep state; a swap loses it.
class Balancer {
 public:
  virtual ~Balancer() = default;
  /// Picks for `request` one of `candidates`: non-empty, all ready, sorted by id, valid during the call.
  /// `now` is the caller's monotonic clock: the same plugin runs in replay.
  /// Errors: overloaded when each is at its queue limit; the client then gets that code.
  virtual Outcome<CandidateId> pick(const RequestView& request, std::span<const CandidateView> candidates,
                                    Instant now) = 0;
};

template <>
struct KindTraits<Kind::balancer> {
  using Class = Balancer;
  static constexpr std::uint32_t kApi = kBalancerApi;
};

}  // namespace gearbox::plugin
