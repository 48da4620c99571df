// Calls that a model sends back because it has enough to do for now: another worker may have room for them.
#include <algorithm>

#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

namespace {
constexpr milliseconds kLeast{50}, kMost{30'000};  // as of all advice to come again
constexpr milliseconds kUnsaid{1'000};
}  // namespace

/// Notes the refusal. Is there a worker left that has not been asked? Else the answer is completed: when to come again.
bool Dispatcher::goes_elsewhere(Waiting& waiting, worker_pool::CallAnswer& answer) const {
  answer.again = answer.again.count() == 0 ? kUnsaid : std::clamp(answer.again, kLeast, kMost);
  const Instant until = after(Clock::now(), answer.again);
  const auto known = std::find_if(waiting.refusals.begin(), waiting.refusals.end(),
                                  [&](const auto& refusal) { return refusal.worker == answer.worker; });
  if (known != waiting.refusals.end()) {
    known->until = until;
  } else {
    waiting.refusals.push_back({answer.worker, until});
  }
  const std::vector<worker_pool::WorkerView> ready = pool_.ready(*waiting.job.record);
  const bool may_begin = waiting.parts == 0 || waiting.job.record->repeatable;
  if (may_begin && std::any_of(ready.begin(), ready.end(), [&](const worker_pool::WorkerView& worker) {
        return !is_refused(waiting, worker.id, Instant::min());
      })) {
    return true;
  }
  answer.outputs.error().detail += "; again after " + std::to_string(answer.again.count()) + " ms";
  return false;
}

/// `now` before any refusal: has it ever refused?
bool Dispatcher::is_refused(const Waiting& waiting, WorkerId worker, Instant now) {
  return std::any_of(waiting.refusals.begin(), waiting.refusals.end(),
                     [&](const auto& refusal) { return refusal.worker == worker && now < refusal.until; });
}

/// Is everyone who is ready one that has refused it, and not to be asked yet?
bool Dispatcher::all_refuse(const Waiting& waiting) const {
  const std::vector<worker_pool::WorkerView> ready = pool_.ready(*waiting.job.record);
  const Instant now = Clock::now();
  return !ready.empty() && std::all_of(ready.begin(), ready.end(), [&](const worker_pool::WorkerView& worker) {
    return is_refused(waiting, worker.id, now);
  });
}

}  // namespace gearbox::dispatch
