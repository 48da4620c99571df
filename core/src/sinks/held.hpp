// held.hpp: the events of one sink that it puts off again and again while it takes others: tried singly, beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "sinks/queue.hpp"

namespace gearbox::sinks {

/// Bounded: they lie in memory as well as in the queue. One thread.
class Held {
 public:
  static constexpr std::size_t kMost = 32;

  struct Event {
    Row row;
    std::string reason;  // of its last try
    milliseconds pause{0};
    Instant due{};
  };

  /// From now on `row` is tried alone, first after `pause`. Returns the one that gives way when there are too many: the
  /// one that is here for longest, which was tried most often.
  std::optional<Event> add(Row row, std::string reason, milliseconds pause, Instant now);
  /// The one that is due first; none: nothing is held. Valid until the next call that is not const.
  const Event* first() const;
  /// The first one was tried and put off again: it waits twice as long as before, `most` at most, or as long as its
  /// receiver `asked` for.
  void put_off(std::string reason, milliseconds asked, milliseconds most, Instant now);
  /// The first one is over.
  Row take_first();
  /// All of them are due: something has changed.
  void hurry(Instant now);
  std::vector<std::int64_t> ids() const;
  std::size_t size() const { return events_.size(); }

 private:
  std::size_t first_index() const;
  std::vector<Event> events_;  // in the order in which they came
};

}  // namespace gearbox::sinks
