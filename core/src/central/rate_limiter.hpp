// rate_limiter.hpp: how often one address may get a password wrong. Clock passed in; one strand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"

namespace gearbox::central {

/// A bucket of tries for each group of addresses, refilled evenly over a minute. Only failures are charged, so that
/// many devices behind one address may enrol at once; tries that were under way together may run into debt, which is
/// waited off.
class RateLimiter {
 public:
  /// `max_groups` bounds the table: while it is full of offenders, newcomers share one bucket.
  explicit RateLimiter(std::uint32_t tries_per_minute, std::size_t max_groups = 4096);

  /// From here on so many; what was charged before stays charged.
  void allow(std::uint32_t tries_per_minute);

  /// How long `group` has to wait before its next try; zero: now.
  milliseconds wait(std::string_view group, Instant now) const;
  void failed(std::string_view group, Instant now);
  std::size_t groups() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tries = 0;  // left at `at`; negative: in debt
    Instant at{};
  };
  double left(const Bucket& bucket, Instant now) const;
  void forget_full(Instant now);
  double burst_;
  std::size_t max_groups_;
  std::map<std::string, Bucket, std::less<>> buckets_;
  Bucket overflow_;
};

}  // namespace gearbox::central
