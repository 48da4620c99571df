// Pools: each has a queue of its own for each model, and workers that take from that one first. Soft: what is idle is
// lent, as far as the pool says, and only while nobody of its own waits.
#include <algorithm>

#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

using worker_pool::WorkerView;

/// The one whose queue the call goes to: a pool without a worker for it is none.
std::string Dispatcher::pool_for(const model::Record& record, std::string_view wished) const {
  if (wished.empty()) return {};
  const std::vector<WorkerView> ready = pool_.ready(record);
  const bool has_one =
      std::any_of(ready.begin(), ready.end(), [&](const WorkerView& worker) { return worker.pool.serves() == wished; });
  return has_one ? std::string(wished) : std::string();
}

/// The last worker of the pool is gone: its calls wait with those of no pool. True: they did.
bool Dispatcher::leave_empty_pool(const QueueKey& key, FairQueue& queue) {
  if (key.pool.empty()) return false;
  const Waiting& first = jobs_.at(queue.front());
  if (pool_for(*first.job.record, key.pool) == key.pool) return false;
  for (const JobId id : queue.items()) {
    queue.remove(id);
    enqueue(id);
  }
  pump_again_ = true;
  return true;
}

/// Has the worker places to spare for calls of others? What it runs ahead of time is for its own.
bool Dispatcher::lends(const WorkerView& worker, const model::Record& record) const {
  const auto own = queues_.find({key_of(record), std::string(worker.pool.serves())});
  if (own != queues_.end() && !own->second.empty()) return false;
  return worker.running * 100ULL < std::uint64_t{worker.pool.lends_percent} * worker.max_batch;
}

bool Dispatcher::may_take(const Waiting& waiting, const WorkerView& worker, Reach reach) const {
  const std::string_view serves = worker.pool.serves();
  // The second: its pool had no worker when it was queued, and has one by now.
  if (serves == waiting.pool || (!serves.empty() && serves == waiting.job.pool)) return true;
  return reach == Reach::all && lends(worker, *waiting.job.record);
}

}  // namespace gearbox::dispatch
