// Calls that nobody waits for any more. One that still lies in the ring is not run; one that runs is left to end and
// its answer thrown away, or, when the model's record says cancel_by_restart, its worker is replaced.
#include <algorithm>

#include "gearbox/shm/call_block.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;

namespace {
/// Between the cancellation of a running call and the end of its worker: an answer that was about to come settles it
/// without harm.
constexpr milliseconds kGrace{20};
}  // namespace

void Pool::cancel(WorkerPool::CallId id) {
  Worker* worker = by_slot(slot_of(id));
  if (worker == nullptr) return;
  const auto found = std::find_if(worker->running.begin(), worker->running.end(),
                                  [&](const Running& running) { return running.id == id; });
  if (found == worker->running.end() || !found->answered) return;
  if (found->block) shm::mark_cancelled(found->block->bytes());  // it may still wait in the ring
  if (found->stream) found->stream->abandon();                   // or wait for a room
  tell_later(*worker, *found, Error{Errc::cancelled, {}}, true);
  // Looked at after the mark: what is taken from here on sees it, and is not run.
  found->unwanted = worker->attached() && Worker::has_begun(*found, worker->attachment->requests.taken());
  if (found->unwanted && worker->record->cancel_by_restart) replace_later(*worker);
}

void Pool::replace_later(Worker& worker) {
  worker.unwanted.expires_after(kGrace);
  worker.unwanted.async_wait([self = weak_from_this(), slot = worker.slot, id = worker.id](const error_code& error) {
    const auto pool = self.lock();
    if (error || !pool || pool->stopping_) return;
    pool->poll(Clock::now());  // an answer that is there by now is taken first
    Worker* const there = pool->by_slot(slot);
    if (there != nullptr && there->id == id) pool->replace(*there);
  });
}

/// If it still runs a call that was cancelled while it ran. The others are not to blame for that: whether it has begun
/// them or not, they go on elsewhere. The next process is started at once; the slot has done nothing wrong.
void Pool::replace(Worker& worker) {
  const bool runs = std::any_of(worker.running.begin(), worker.running.end(),
                                [](const Running& running) { return running.unwanted; });
  if (!runs || !worker.attached()) return;
  ++ended_.cancelled;
  worker.start_at_once = true;
  const std::string reason = "the call that it ran was cancelled";
  end_calls(worker, Error{Errc::worker_lost, "worker " + std::to_string(worker.place) + ": " + reason}, 0);
  kill(worker, reason, Errc::worker_lost);
}

}  // namespace gearbox::worker_pool
