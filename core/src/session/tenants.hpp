// tenants.hpp: what each tenant has of the node at the moment, over all its devices, and how soon it may have more. A
// tenant's accounts share its limits. Pure: the time is passed in.
#pragma once

#include <cstdint>
#include <map>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::session {

/// How fast requests end, lately: each end counts less the longer it is ago.
class Drain {
 public:
  void ended(std::uint64_t bytes, Instant now);
  /// Something is to be done again, after a time in which nothing was: that time is not counted as slow.
  void resumed(Instant now);
  /// Until `requests` more, and `bytes` more, have ended at the pace of the last seconds. Between kShortestWait and
  /// kLongestWait; kUnknownWait while nothing has ended.
  milliseconds until(std::uint32_t requests, std::uint64_t bytes, Instant now) const;

  static constexpr milliseconds kShortestWait{50};
  static constexpr milliseconds kLongestWait{30'000};
  static constexpr milliseconds kUnknownWait{1'000};

 private:
  double faded(Instant now) const;

  Instant first_{}, last_{};
  double requests_ = 0;  // faded as of last_
  double bytes_ = 0;
};

/// `wait` as a sender may be told it.
milliseconds told_wait(microseconds wait);

class Tenants {
 public:
  struct Limits {
    std::uint32_t requests = 0;  // open ones; 0: no limit
    std::uint64_t bytes = 0;     // of their inputs, decoded; a single request may have more; 0: no limit
  };

  /// May `tenant` open one more, with `bytes`? Errors: overloaded; `wait` is then how long that is likely to take.
  Outcome<void> check(std::uint32_t tenant, std::uint64_t bytes, const Limits& limits, Instant now,
                      milliseconds& wait) const;
  void opened(std::uint32_t tenant, std::uint64_t bytes, Instant now);
  void ended(std::uint32_t tenant, std::uint64_t bytes, Instant now);

  /// Of one tenant; of all together.
  const Drain& drain(std::uint32_t tenant) const;
  const Drain& drain() const { return all_; }

 private:
  struct Share {  // there while the tenant has something open
    std::uint32_t open = 0;
    std::uint64_t bytes = 0;
    Drain drain;
  };
  std::map<std::uint32_t, Share> shares_;
  std::uint64_t open_ = 0;
  Drain all_;
};

/// The smaller of two limits, where 0 means none.
template <class Number>
Number tighter(Number a, Number b) {
  if (a == 0 || b == 0) return a + b;
  return a < b ? a : b;
}

}  // namespace gearbox::session
