#include "dispatch/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::dispatch {

using worker_pool::Service;

namespace {
/// A call that was running in two workers which died is not tried in a third: it may well be what kills them.
constexpr std::uint32_t kDeathsToQuarantine = 2;
/// Queues of models that nothing waits for; beyond that they are dropped.
constexpr std::size_t kSpareQueues = 64;
}  // namespace

Dispatcher::Dispatcher(worker_pool::WorkerPool& pool, std::shared_ptr<plugin::Balancer> balancer,
                       std::size_t queue_limit)
    : pool_(pool), balancer_(std::move(balancer)), queue_limit_(queue_limit) {}

void Dispatcher::use(std::shared_ptr<plugin::Balancer> balancer) {
  // A pick under way holds the earlier one itself; see pick().
  balancer_ = std::move(balancer);
}

Outcome<void> fit(const model::Record& record, worker_pool::CallSpec& call) {
  for (const worker_pool::TensorRef& input : call.inputs) {
    const auto declared = std::find_if(record.inputs.begin(), record.inputs.end(),
                                       [&](const model::TensorDecl& decl) { return decl.name == input.spec.name; });
    if (declared != record.inputs.end()) {
      BOOST_OUTCOME_TRY(model::check_fits(*declared, input.spec));
    }
  }
  call.grant_bytes = record.max_output_bytes;
  return done();
}

Outcome<Dispatcher::JobId> Dispatcher::submit(Job job, Done done) {
  const ModelKey key = key_of(*job.record);
  if (const auto queue = queues_.find(key); queue != queues_.end() && queue->second.size() >= queue_limit_) {
    return Error{Errc::overloaded, std::to_string(queue->second.size()) + " calls wait for model " + job.model};
  }
  if (pool_.service(*job.record) == Service::none) {
    return Error{Errc::model_unavailable,
                 "no worker runs model " + job.record->name + " version " + job.record->version};
  }
  const JobId id = next_id_++;
  Waiting waiting{.job = std::move(job), .done = std::move(done), .since = Clock::now(), .ends = {}};
  jobs_.emplace(id, std::move(waiting));
  enqueue(id, false);
  if (pumping_) {
    pump_again_ = true;
    return id;
  }
  pumping_ = true;
  pump_model(queues_.at(key));
  pumping_ = false;
  if (std::exchange(pump_again_, false)) pump();
  return id;
}

void Dispatcher::enqueue(JobId id, bool first) {
  const Job& job = jobs_.at(id).job;
  const std::uint8_t priority = job.call.priority;
  std::list<JobId>& queue = queues_[key_of(*job.record)];
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
  if (!running) queues_[key_of(*waiting.job.record)].remove(id);
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
    for (auto& [key, queue] : queues_) pump_model(queue);
  } while (pump_again_);
  pumping_ = false;
  // Models come and go; their queues must not pile up.
  if (queues_.size() > kSpareQueues) std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
  if (resolved_at_.size() > kSpareQueues) resolved_at_.clear();
}

void Dispatcher::pump_model(std::list<JobId>& queue) {
  if (queue.empty()) return;
  const model::Record& record = *jobs_.at(queue.front()).job.record;
  if (pool_.service(record) != Service::ready) {
    // A long queue that waits for a model to load is not walked for each answer of all the others.
    const std::uint64_t generation = pool_.generation();
    std::uint64_t& seen = resolved_at_[key_of(record)];
    if (std::exchange(seen, generation) != generation) resolve_again(queue);
  }
  while (!queue.empty()) {
    const JobId id = queue.front();
    Waiting& waiting = jobs_.at(id);
    if (!hand_over(id, waiting)) return;
    queue.remove(id);
  }
}

/// Nobody is ready for what these calls wait for. Each goes to where its model is served by now, if that is elsewhere.
void Dispatcher::resolve_again(std::list<JobId>& queue) {
  std::vector<std::pair<JobId, Error>> failed;
  for (auto at = queue.begin(); at != queue.end();) {
    const JobId id = *at;
    Job& job = jobs_.at(id).job;
    const worker_pool::Resolved now = pool_.resolve(*job.config, job.model, job.version);
    if (now.service != Service::none && key_of(*now.record) == key_of(*job.record)) {
      ++at;
      continue;
    }
    at = queue.erase(at);
    if (now.service == Service::none) {
      failed.emplace_back(id, Error{Errc::model_unavailable, "model " + job.record->name + " version " +
                                                                 job.record->version + " has no worker left"});
    } else if (Outcome<void> fits = fit(*now.record, job.call); !fits) {
      failed.emplace_back(id, fits.error());
    } else {
      job.record = now.record;
      enqueue(id, false);
      pump_again_ = true;
    }
  }
  for (const auto& [id, error] : failed) {
    JobResult result;
    result.outputs = error;
    finish(id, std::move(result));
  }
}

Outcome<plugin::CandidateId> Dispatcher::pick(const Waiting& waiting,
                                              const std::vector<plugin::CandidateView>& candidates) {
  std::uint64_t payload = 0;
  for (const auto& input : waiting.job.call.inputs) payload += input.spec.bytes;
  const plugin::RequestView request{.task = waiting.job.task,
                                    .model = waiting.job.model,
                                    .payload_bytes = payload,
                                    .tenant = waiting.job.call.tenant,
                                    .priority = waiting.job.call.priority,
                                    .attempt = static_cast<std::uint8_t>(std::min<std::uint32_t>(waiting.deaths, 255))};
  // Held here: whatever the call does, it ends before its object does.
  const std::shared_ptr<plugin::Balancer> balancer = balancer_;
  Outcome<plugin::CandidateId> picked = balancer->pick(request, candidates, Clock::now());
  if (!picked && picked.error().code == Errc::overloaded) return picked;
  const auto is_there = [&](const plugin::CandidateView& candidate) { return candidate.id == picked.value(); };
  if (picked && std::any_of(candidates.begin(), candidates.end(), is_there)) return picked;
  // A fault of the plugin is not the request's: the least busy one will do. The plugin host counts faults.
  ++own_picks_;
  const auto least = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(a.queued + a.running, a.id) < std::pair(b.queued + b.running, b.id);
  });
  return least->id;
}

bool Dispatcher::hand_over(JobId id, Waiting& waiting) {
  std::vector<plugin::CandidateView> candidates;
  for (const worker_pool::WorkerView& worker : pool_.ready(*waiting.job.record)) {
    if (worker.running >= worker.capacity || alone_.contains(worker.id)) continue;
    // A call that a worker died of runs alone: whoever is there with it would be suspected as well.
    if (waiting.deaths > 0 && worker.running > 0) continue;
    candidates.push_back({.id = plugin::CandidateId{static_cast<std::uint32_t>(worker.id)},
                          .queued = worker.running > 0 ? worker.running - 1 : 0,
                          .running = worker.running > 0 ? 1U : 0U,
                          .capacity = 1,
                          .step_p95 = worker.step_p95});
  }
  while (!candidates.empty()) {
    const auto picked = pick(waiting, candidates);
    if (!picked) return false;  // each is at the balancer's own limit: wait for the next change
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const auto& candidate) { return candidate.id == picked.value(); });
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
    if (answer.begun) {  // else it only waited there
      ++waiting.deaths;
      waiting.ends.push_back(answer.outputs.error().detail);
    }
    if (waiting.deaths < kDeathsToQuarantine) {
      ++retries_;
      enqueue(id, true);
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
  result.record = waiting.job.record;
  result.ends = std::move(waiting.ends);
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
