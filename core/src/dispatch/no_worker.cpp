#include "dispatch/no_worker.hpp"

namespace gearbox::dispatch {

std::string why_no_worker(const worker_pool::WorkerPool& pool, const model::Record& record) {
  const worker_pool::WorkerView* best = nullptr;
  std::size_t others = 0;
  const std::vector<worker_pool::WorkerView> workers = pool.workers();
  for (const worker_pool::WorkerView& worker : workers) {
    if (worker.model != record.name || worker.version != record.version || worker.reason.empty()) continue;
    if (best != nullptr) ++others;
    // One that waits for a GPU may get it; what made one fail has to be repaired.
    if (best == nullptr || (worker.state == "failed" && best->state != "failed")) best = &worker;
  }
  if (best == nullptr) return {};
  std::string text = ": worker-" + std::to_string(best->place) + (best->state == "failed" ? " has failed: " : ": ");
  text += best->reason;
  if (others > 0) text += " (and " + std::to_string(others) + (others == 1 ? " other)" : " others)");
  return text;
}

}  // namespace gearbox::dispatch
