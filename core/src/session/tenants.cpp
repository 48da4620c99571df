#include "session/tenants.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace gearbox::session {

namespace {
/// What ended so long ago counts for 1/e of what ends now.
constexpr double kMemorySeconds = 5;

double seconds_between(Instant from, Instant to) {
  return std::chrono::duration<double>(elapsed(from, to)).count();
}
}  // namespace

milliseconds told_wait(microseconds wait) {
  return std::clamp(std::chrono::ceil<milliseconds>(wait), Drain::kShortestWait, Drain::kLongestWait);
}

double Drain::faded(Instant now) const {
  return std::exp(-seconds_between(last_, now) / kMemorySeconds);
}

void Drain::ended(std::uint64_t bytes, Instant now) {
  if (first_ == Instant{}) {
    first_ = last_ = now;
    return;  // the first one only starts the clock: an interval has two ends
  }
  const double fade = faded(now);
  requests_ = requests_ * fade + 1;
  bytes_ = bytes_ * fade + static_cast<double>(bytes);
  last_ = now;
}

void Drain::resumed(Instant now) {
  if (first_ == Instant{} || now <= last_) return;
  first_ += now - last_;
  last_ = now;
}

milliseconds Drain::until(std::uint32_t requests, std::uint64_t bytes, Instant now) const {
  if (requests_ <= 0) return kUnknownWait;
  // Over a time without beginning the sums would be rate * kMemorySeconds; of a shorter one they are that part of it.
  const double age = seconds_between(first_, now);
  const double span = kMemorySeconds * (1 - std::exp(-age / kMemorySeconds));
  const double fade = faded(now);
  const auto wait = [&](double wanted, double sum) { return wanted <= 0 ? 0 : wanted * span / (sum * fade); };
  const double longest = std::max(wait(requests, requests_), wait(static_cast<double>(bytes), bytes_));
  if (!(longest < 1e6)) return kLongestWait;  // also when no bytes have ended: then nobody knows
  return told_wait(microseconds(static_cast<microseconds::rep>(longest * 1e6)));
}

Outcome<void> Tenants::check(std::uint32_t tenant, std::uint64_t bytes, const Limits& limits, Instant now,
                             milliseconds& wait) const {
  const auto found = shares_.find(tenant);
  if (found == shares_.end()) return done();
  const Share& share = found->second;
  if (limits.requests > 0 && share.open >= limits.requests) {
    wait = share.drain.until(share.open - limits.requests + 1, 0, now);
    return Error{Errc::overloaded, "tenant " + std::to_string(tenant) + " has " + std::to_string(share.open) +
                                       " open requests, its limit is " + std::to_string(limits.requests)};
  }
  if (limits.bytes > 0 && share.bytes + bytes > limits.bytes) {
    wait = share.drain.until(1, share.bytes + bytes - limits.bytes, now);
    return Error{Errc::overloaded, "the open requests of tenant " + std::to_string(tenant) + " hold " +
                                       std::to_string(share.bytes) + " bytes, and with " + std::to_string(bytes) +
                                       " more would pass its limit of " + std::to_string(limits.bytes)};
  }
  return done();
}

void Tenants::opened(std::uint32_t tenant, std::uint64_t bytes, Instant now) {
  if (open_++ == 0) all_.resumed(now);
  Share& share = shares_[tenant];
  ++share.open;
  share.bytes += bytes;
}

void Tenants::ended(std::uint32_t tenant, std::uint64_t bytes, Instant now) {
  all_.ended(bytes, now);
  const auto found = shares_.find(tenant);
  if (found == shares_.end()) return;
  Share& share = found->second;
  share.drain.ended(bytes, now);
  --open_;
  share.bytes -= std::min(share.bytes, bytes);
  if (--share.open == 0) shares_.erase(found);
}

const Drain& Tenants::drain(std::uint32_t tenant) const {
  const auto found = shares_.find(tenant);
  return found == shares_.end() ? all_ : found->second.drain;
}

}  // namespace gearbox::session
