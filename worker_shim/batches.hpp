// batches.hpp: which calls the model gets together, and when. Calls come in the order of the ring; the oldest decides
// what the next batch is made of.
#pragma once

#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/shm/endpoint.hpp"

namespace gearbox::shim {

/// May the model be asked, or asked on? What waited in the worker may be of no use by now.
/// Errors: deadline_exceeded; cancelled.
Outcome<void> still_wanted(const shm::Call& call, Instant now = Clock::now());

/// Can a model get both in one batch? The same inputs, by name, dtype and shape, and neither of them a stream.
bool are_alike(const shm::Call& a, const shm::Call& b);

/// The calls that one node has handed over and that the model has not got yet. With max_batch = 1 none is taken from
/// the ring before the model is free. Else all are, and those that do not fit into the batch at hand are put aside, in
/// their order; the node is told which (shm::put_aside), since a call that only waits is not to blame for a worker's
/// death. One thread.
class Batches {
 public:
  /// `record` and `endpoint` outlive it.
  Batches(shm::WorkerEndpoint& endpoint, const model::Record& record);

  /// A batch that is due now, or within a few microseconds: waits so long without letting go of the GIL, whose way out
  /// and back costs more; but other Python threads get it at least as often as Python's own switching would give it to
  /// them. Empty: let go of the GIL and wait(). Errors: those of WorkerEndpoint::look.
  Outcome<std::vector<shm::Call>> look();

  /// The next batch: max_batch calls that are alike, or what there is max_delay_ms after the oldest was handed over.
  /// Calls that nobody wants any more come with it, beyond max_batch. Without the GIL. Empty when none came within a
  /// moment, or when the worker is to stop. Errors: those of WorkerEndpoint::next.
  Outcome<std::vector<shm::Call>> wait();

 private:
  bool is_due(Instant now) const;
  Outcome<void> take(Outcome<std::vector<shm::Call>> calls);
  std::vector<shm::Call> compose(Instant now);
  std::size_t room() const { return most_ - aside_.size(); }

  shm::WorkerEndpoint& endpoint_;
  const model::Record& record_;
  const std::size_t most_;        // calls that the node hands over at once
  std::vector<shm::Call> aside_;  // oldest first
  Instant others_since_{};        // other Python threads could run
  bool turn_over_ = true;
};

}  // namespace gearbox::shim
