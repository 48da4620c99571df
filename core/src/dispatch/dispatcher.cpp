#include "dispatch/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::dispatch {

namespace {
/// A call that was running in two workers which died is not tried in a third: it may well be what kills them.
constexpr std::uint32_t kDeathsToQuarantine = 2;
}  // namespace

Dispatcher::Dispatcher(worker_pool::WorkerPool& pool, std::shared_ptr<plugin::Balancer> balancer,
                       std::size_t queue_limit)
    : pool_(pool), balancer_(std::move(balancer)), queue_limit_(queue_limit) {}

bool Dispatcher::can_ever_run(const std::string& model, const std::string& version) const {
  const auto workers = pool_.workers();
  return std::any_of(workers.begin(), workers.end(), [&](const worker_pool::WorkerView& worker) {
    return worker.model == model && worker.version == version && worker.state != "failed";
  });
}

Outcome<Dispatcher::JobId> Dispatcher::submit(Job job, Done done) {
  const ModelKey key{job.model, job.version};
  std::list<JobId>& queue = queues_[key];
  if (queue.size() >= queue_limit_) {
    return Error{Errc::overloaded, std::to_string(queue.size()) + " calls wait for model " + job.model};
  }
  if (!can_ever_run(job.model, job.version)) {
    return Error{Errc::model_unavailable, "no worker runs model " + job.model + " version " + job.version};
  }
  const JobId id = next_id_++;
  Waiting waiting{.job = std::move(job), .done = std::move(done), .since = Clock::now()};
  const std::uint8_t priority = waiting.job.call.priority;
  jobs_.emplace(id, std::move(waiting));
  enqueue(key, id, priority, false);
  pump_model(key, queue);
  return id;
}

void Dispatcher::enqueue(const ModelKey& key, JobId id, std::uint8_t priority, bool first) {
  std::list<JobId>& queue = queues_[key];
  // Higher priorities first; within one, in order of arrival, but a retry goes before what came after it.
  auto at = std::find_if(queue.begin(), queue.end(), [&](JobId other) {
    const std::uint8_t theirs = jobs_.at(other).job.call.priority;
    return first ? theirs <= priority : theirs < priority;
  });
  queue.insert(at, id);
}

void Dispatcher::cancel(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const Waiting& waiting = found->second;
  const bool running = waiting.running;
  const auto call = waiting.call;
  if (!running) queues_[{waiting.job.model, waiting.job.version}].remove(id);
  std::erase_if(alone_, [id](const auto& suspect) { return suspect.second == id; });
  jobs_.erase(found);  // first: the pool's answer to the cancellation must find nobody
  if (running) pool_.cancel(call);
}

void Dispatcher::pump() {
  // Handing over may make the pool report a change while we are still looking through the queues: note it, go round
  // again.
  if (pumping_) {
    pump_again_ = true;
    return;
  }
  pumping_ = true;
  do {
    pump_again_ = false;
    for (auto& [key, queue] : queues_) pump_model(key, queue);
  } while (pump_again_);
  pumping_ = false;
}

void Dispatcher::pump_model(const ModelKey& key, std::list<JobId>& queue) {
  if (queue.empty()) return;
  if (!can_ever_run(key.first, key.second)) {
    const std::list<JobId> all = std::exchange(queue, {});
    for (const JobId id : all) {
      JobResult result;
      result.outputs =
          Error{Errc::model_unavailable, "model " + key.first + " version " + key.second + " has no worker left"};
      finish(id, std::move(result));
    }
    return;
  }
  while (!queue.empty()) {
    const JobId id = queue.front();
    Waiting& waiting = jobs_.at(id);
    if (!hand_over(id, waiting)) return;
    queue.remove(id);
  }
}

bool Dispatcher::hand_over(JobId id, Waiting& waiting) {
  std::vector<plugin::CandidateView> candidates;
  for (const worker_pool::WorkerView& worker : pool_.ready(waiting.job.model, waiting.job.version)) {
    if (worker.running >= worker.capacity || alone_.contains(worker.id)) continue;
    // A call that a worker died of runs alone: whoever is there with it would be suspected as well.
    if (waiting.deaths > 0 && worker.running > 0) continue;
    candidates.push_back({.id = plugin::CandidateId{static_cast<std::uint32_t>(worker.id)},
                          .queued = worker.running > 0 ? worker.running - 1 : 0,
                          .running = worker.running > 0 ? 1U : 0U,
                          .capacity = 1,
                          .step_p95 = worker.step_p95});
  }
  const Instant now = Clock::now();
  while (!candidates.empty()) {
    std::uint64_t payload = 0;
    for (const auto& input : waiting.job.call.inputs) payload += input.spec.bytes;
    const plugin::RequestView request{
        .task = waiting.job.task,
        .model = waiting.job.model,
        .payload_bytes = payload,
        .tenant = waiting.job.call.tenant,
        .priority = waiting.job.call.priority,
        .attempt = static_cast<std::uint8_t>(std::min<std::uint32_t>(waiting.deaths, 255))};
    const auto picked = balancer_->pick(request, candidates, now);
    if (!picked) return false;  // each is at the balancer's own limit: wait for the next change
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const auto& candidate) { return candidate.id == picked.value(); });
    if (chosen == candidates.end()) return false;  // an invalid answer; the plugin host counts it
    worker_pool::CallSpec spec = waiting.job.call;
    spec.attempt = waiting.deaths;
    const WorkerId worker{static_cast<std::uint32_t>(chosen->id)};
    auto called = pool_.call(worker, std::move(spec),
                             [this, id](worker_pool::CallAnswer answer) { answered(id, std::move(answer)); });
    if (called) {
      waiting.running = true;
      waiting.call = called.value();
      if (waiting.deaths > 0) alone_.insert_or_assign(worker, id);
      return true;
    }
    candidates.erase(chosen);  // full or just lost: ask again without it
  }
  return false;
}

void Dispatcher::answered(JobId id, worker_pool::CallAnswer answer) {
  std::erase_if(alone_, [id](const auto& suspect) { return suspect.second == id; });
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;  // cancelled meanwhile
  Waiting& waiting = found->second;
  waiting.running = false;
  if (!answer.outputs && answer.outputs.error().code == Errc::worker_lost) {
    if (answer.begun) ++waiting.deaths;  // else it only waited there
    if (waiting.deaths < kDeathsToQuarantine) {
      ++retries_;
      enqueue({waiting.job.model, waiting.job.version}, id, waiting.job.call.priority, true);
      pump();
      return;
    }
    ++quarantined_;
    answer.outputs =
        Error{Errc::quarantined, "two workers of model " + waiting.job.model +
                                     " died while they ran this request: " + answer.outputs.error().detail};
  }
  JobResult result;
  // Handed over ahead of time, a call still waits in the worker's ring: all that is not the model's own time is
  // waiting.
  const microseconds ran = std::chrono::duration_cast<microseconds>(answer.run);
  result.queued = std::max(elapsed(waiting.since, Clock::now()) - ran, microseconds{0});
  result.run = answer.run;
  result.worker = answer.worker;
  result.attempts = waiting.deaths + 1;
  result.outputs = std::move(answer.outputs);
  finish(id, std::move(result));
  pump();
}

void Dispatcher::finish(JobId id, JobResult result) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Done done = std::move(found->second.done);
  jobs_.erase(found);
  done(std::move(result));
}

std::map<std::string, ModelLoad> Dispatcher::load() const {
  std::map<std::string, ModelLoad> loads;
  for (const auto& [id, waiting] : jobs_) {
    ModelLoad& load = loads[waiting.job.model];
    if (waiting.running) {
      ++load.running;
    } else {
      ++load.queued;
    }
  }
  return loads;
}

}  // namespace gearbox::dispatch
