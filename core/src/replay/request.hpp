// request.hpp: what arrives, what is known of it while it is served, and what is left of it at its end.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/event_queue.hpp"

namespace gearbox::replay {

/// One line of a trace.
struct Arrival {
  Nanos at = 0;
  std::uint16_t model = 0;   // index among the run's models
  std::uint16_t tenant = 0;  // index among the trace's tenants
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t bytes = 0;  // of its payload
};

using RequestIndex = std::uint32_t;
inline constexpr std::uint32_t kNoGroup = 0xffffffff;

struct Request {
  Arrival arrival;
  std::uint64_t number = 0;  // of its arrival, from 0
  Nanos first = -1;          // its first token
  std::uint32_t generated = 0;
  std::uint32_t to_prefill = 0;  // positions to be taken in before the next token: of the prompt, and of what a
                                 // recomputation has to repeat
  std::uint32_t prefilled = 0;
  std::uint32_t group = kNoGroup;
  std::uint16_t attempt = 0;
  std::uint16_t step = 0;        // of a pipeline
  std::uint32_t open_calls = 0;  // of that step
};

/// Positions of a cache that it holds at most.
inline std::uint64_t room_of(const Arrival& arrival) {
  return std::uint64_t{arrival.input_tokens} + arrival.output_tokens;
}

/// Requests that are in the system; places are used again.
class Requests {
 public:
  RequestIndex add(const Arrival& arrival, std::uint64_t number) {
    RequestIndex index = 0;
    if (free_.empty()) {
      index = static_cast<RequestIndex>(all_.size());
      all_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Request& request = all_[index];
    request = Request();
    request.arrival = arrival;
    request.number = number;
    request.to_prefill = arrival.input_tokens;
    return index;
  }
  void remove(RequestIndex index) { free_.push_back(index); }
  Request& operator[](RequestIndex index) { return all_[index]; }
  const Request& operator[](RequestIndex index) const { return all_[index]; }
  std::size_t open() const { return all_.size() - free_.size(); }

 private:
  std::vector<Request> all_;
  std::vector<RequestIndex> free_;
};

/// A request that is over.
struct Ended {
  std::uint64_t number = 0;
  Nanos arrived = 0;
  double latency_s = 0;
  double first_token_s = -1;
  double per_token_s = -1;  // after the first; below zero with one token only
  std::uint16_t tenant = 0;
};

}  // namespace gearbox::replay
