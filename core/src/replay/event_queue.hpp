// event_queue.hpp: simulated time, and what is to happen when.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#include "gearbox/base/clock.hpp"

namespace gearbox::replay {

/// Simulated time since the run's beginning, in nanoseconds. No figure of a run comes from any other clock.
using Nanos = std::int64_t;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kSecond = 1'000'000'000;

inline double in_seconds(Nanos time) {
  return static_cast<double>(time) * 1e-9;
}
/// Rounded, so that sums do not drift to one side.
inline Nanos from_seconds(double seconds) {
  return static_cast<Nanos>(seconds * 1e9 + 0.5);
}
/// What plugins get for their clock.
inline Instant as_instant(Nanos time) {
  return Instant(std::chrono::duration_cast<Instant::duration>(std::chrono::nanoseconds(time)));
}

enum class EventKind : std::uint8_t {
  stretch,    // a replica's steps are over; who: the replica
  card,       // a card's batch of calls is over; who: the card
  gather,     // a rehearsed shift begins; who: the group
  resume,     // a shift's pause is over; who: the group
  happening,  // a failure or a slow link; who: its place in the cluster's list
  handed_on   // the broker has done its part of a request; who: the request
};

struct Event {
  Nanos at = 0;
  std::uint64_t order = 0;  // of being added: events of one moment happen in that order
  EventKind kind{};
  std::uint32_t who = 0;
  std::uint32_t version = 0;  // of `who`: an event of an older one has been overtaken
};

class EventQueue {
 public:
  void add(Nanos at, EventKind kind, std::uint32_t who, std::uint32_t version = 0) {
    events_.push({at, order_++, kind, who, version});
  }
  Nanos next_at() const { return events_.empty() ? kNever : events_.top().at; }
  Event take() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::uint64_t order_ = 0;
};

}  // namespace gearbox::replay
