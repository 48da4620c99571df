// lease.hpp: one scheduler decides: the one that holds the lease.
//
// Where leases live is behind Lease: this host's central, or a plugin of the kind coordination.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/coordination.hpp"

namespace gearbox::scheduler {

using plugin::LeaseAnswer;

class Lease {
 public:
  virtual ~Lease() = default;
  /// Acquires, or, with the term that was granted before, renews. A new term is above all that were granted before, and
  /// above `above`.
  /// Bounded by itself. Errors: whatever keeps the store from answering; nothing is granted then.
  virtual boost::asio::awaitable<Outcome<LeaseAnswer>> ask(std::string holder, milliseconds ttl,
                                                           std::optional<std::uint64_t> term, std::uint64_t above) = 0;
  /// Gives it back, so that the next one need not wait. Best effort.
  virtual boost::asio::awaitable<void> release(std::string holder, std::uint64_t term) = 0;
  /// No more questions; waits for the one that is being asked. For the end of the process: its strand runs no more.
  virtual void close() {}
};

/// Which store of leases is in force.
struct LeaseStore {
  std::string name = "central";
  std::string asks_for;          // the name of the lease
  std::shared_ptr<Lease> lease;  // null: its plugin's build is barred, and nobody leads here
  std::uint64_t edition = 0;     // of its plugin
};

/// What an asker may believe of its lease. Threads: one at a time. The clock is passed in.
class LeaseKeeper {
 public:
  explicit LeaseKeeper(milliseconds ttl) : ttl_(ttl) {}

  milliseconds ttl() const { return ttl_; }
  /// Time to ask again: a third of the time to live, so that two questions may fail.
  milliseconds pause() const { return ttl_ / 3; }

  /// `asked`: when the question was sent: from then on it lasts, not from the answer.
  void answered(const Outcome<LeaseAnswer>& answer, Instant asked);

  /// Somebody has obeyed `term`, which is higher than the one held: the store has forgotten it. A new one is needed.
  void outranked(std::uint64_t term);
  std::uint64_t above() const { return above_; }
  /// Another store is asked from now on: what was held at the one before is given up.
  void moved();

  bool holds(Instant now) const { return term_ && now < until_; }
  /// To renew with; none: ask for a new one.
  std::optional<std::uint64_t> term() const { return term_; }
  /// Who leads, as far as it is known; empty: unknown.
  const std::string& leader() const { return leader_; }
  std::uint64_t leaders_term() const { return leaders_term_; }
  const std::string& problem() const { return problem_; }

 private:
  milliseconds ttl_;
  std::optional<std::uint64_t> term_;
  Instant until_{};
  std::string leader_;
  std::uint64_t leaders_term_ = 0;
  std::uint64_t above_ = 0;
  std::string problem_ = "nobody has been asked yet";
};

}  // namespace gearbox::scheduler
