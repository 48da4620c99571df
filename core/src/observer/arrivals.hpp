// arrivals.hpp: from counters since an engine's start to what comes in a second, over short and long spans.
#pragma once

#include <deque>
#include <vector>

#include "gear_facts/engine_status.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/gear.hpp"

namespace gearbox::observer {

/// Threads: one at a time. The clock is passed in.
class Arrivals {
 public:
  /// Counters that fell are those of another engine: what was before is forgotten.
  void add(const gear_facts::EngineLoad& load, Instant now);
  void clear() { points_.clear(); }

  plugin::LoadView fast() const;  // over 8 s
  plugin::LoadView slow() const;  // over 40 s
  /// Windows of 20 s of the last five minutes, oldest first; only those that are whole.
  std::vector<plugin::LoadView> recent() const;

 private:
  struct Point {
    Instant at;
    gear_facts::EngineLoad load;
  };
  /// The newest point that is at least so old; the oldest one where there is none.
  std::size_t before(Instant at) const;
  plugin::LoadView between(std::size_t from, std::size_t to) const;
  plugin::LoadView last(milliseconds span) const;

  std::deque<Point> points_;  // one a second at most
};

}  // namespace gearbox::observer
