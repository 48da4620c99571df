// health.hpp: how one build of a plugin does: calls, faults, how long calls take; and when that is too much.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "gearbox/base/clock.hpp"

namespace gearbox::plugin_host {

/// What calls are held to; one for all libraries of a host, changed live. Any thread.
struct CallRules {
  std::atomic<Clock::duration> budget{std::chrono::milliseconds(100)};
  std::atomic<Clock::duration> hang{std::chrono::seconds(10)};
  std::atomic<std::uint32_t> fault_limit{10};

  /// Called from within a plugin's call when a build has passed the limit; must not block.
  void on_trouble(std::function<void()> trouble);
  void tell_trouble();

 private:
  std::mutex mutex_;
  std::function<void()> trouble_;
};

/// Any thread.
class Health {
 public:
  explicit Health(std::shared_ptr<CallRules> rules) : rules_(std::move(rules)) {}

  void called(Clock::duration took);
  void fault(const std::string& what, Instant now);

  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  std::uint64_t faults() const { return faults_.load(std::memory_order_relaxed); }
  /// The upper edge of the bucket that holds the 99th of a hundred calls; buckets grow by a quarter of an octave.
  microseconds p99() const;
  /// More faults within a minute than the rules allow; stays so until forgive().
  bool tripped() const { return tripped_.load(std::memory_order_relaxed); }
  std::string last_fault() const;
  /// The build was released and may serve again.
  void forgive();

 private:
  static constexpr std::size_t kBuckets = 256;
  static std::size_t bucket_of(std::uint64_t ns);
  std::shared_ptr<CallRules> rules_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<bool> tripped_{false};
  std::array<std::atomic<std::uint64_t>, kBuckets> took_{};
  mutable std::mutex mutex_;  // of what follows
  std::string last_fault_;
  Instant minute_{};  // when the minute began that is counted
  std::uint32_t in_minute_ = 0;
};

}  // namespace gearbox::plugin_host
