#include "dispatch/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "dispatch/no_worker.hpp"
#include "dispatch/noting.hpp"

namespace gearbox::dispatch {

using worker_pool::Service;

namespace {
/// Queues of models that nothing waits for; beyond that they are dropped.
constexpr std::size_t kSpareQueues = 64;

FairQueue::Owner owner_of(const worker_pool::CallSpec& call) {
  return {.tenant = call.tenant, .weight = call.weight, .priority = call.priority};
}

}  // namespace

Dispatcher::Dispatcher(worker_pool::WorkerPool& pool, std::shared_ptr<plugin::Balancer> balancer,
                       std::size_t queue_limit, explain::ChooserPtr chooser)
    : pool_(pool), balancer_(std::move(balancer)), chooser_(std::move(chooser)), queue_limit_(queue_limit) {}

void Dispatcher::use(std::shared_ptr<plugin::Balancer> balancer, explain::ChooserPtr chooser) {
  // A pick under way holds the earlier one itself; see pick().
  balancer_ = std::move(balancer);
  chooser_ = std::move(chooser);
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
  const Instant now = Clock::now();
  if (job.call.deadline <= now) return Error{Errc::deadline_exceeded, "its time was up before it could wait"};
  if (is_full(*job.record, job.pool)) {
    const FairQueue& queue = queues_.at({key_of(*job.record), pool_for(*job.record, job.pool)});
    return Error{Errc::overloaded, std::to_string(queue.size()) + " calls wait for model " + job.model};
  }
  if (pool_.service(*job.record) == Service::none) {
    return Error{Errc::model_unavailable, "no worker runs model " + job.record->name + " version " +
                                              job.record->version + why_no_worker(pool_, *job.record)};
  }
  const JobId id = next_id_++;
  Waiting waiting{.job = std::move(job), .done = std::move(done), .since = now, .pool = {}, .ends = {}};
  jobs_.emplace(id, std::move(waiting));
  enqueue(id);
  if (pumping_) {
    pump_again_ = true;
    return id;
  }
  submitting_ = id;
  pumping_ = true;
  const QueueKey key = queue_of(jobs_.at(id));
  if (pump_queue(key, Reach::own)) pump_queue(key, Reach::all);
  pumping_ = false;
  if (std::exchange(pump_again_, false)) pump();
  submitting_ = 0;
  return id;
}

void Dispatcher::enqueue(JobId id) {
  Waiting& waiting = jobs_.at(id);
  waiting.pool = pool_for(*waiting.job.record, waiting.job.pool);
  FairQueue& queue = queues_[queue_of(waiting)];
  const FairQueue::Owner owner = owner_of(waiting.job.call);
  if (const double charged = std::exchange(waiting.charged, 0); charged > 0) {
    queue.put_back(id, owner, charged);
  } else {
    queue.push(id, owner);
  }
}

bool Dispatcher::is_full(const model::Record& record, std::string_view pool) const {
  const auto queue = queues_.find({key_of(record), pool_for(record, pool)});
  return queue != queues_.end() && queue->second.size() >= queue_limit_;
}

std::optional<microseconds> Dispatcher::backlog(const model::Record& record, std::string_view pool) const {
  const auto queue = queues_.find({key_of(record), pool_for(record, pool)});
  if (queue == queues_.end() || queue->second.mean_cost() <= 0) return std::nullopt;
  const std::vector<worker_pool::WorkerView> ready = pool_.ready(record);
  const auto own = std::count_if(ready.begin(), ready.end(), [&](const worker_pool::WorkerView& worker) {
    return worker.pool.serves() == queue->first.pool;
  });
  const auto workers = own > 0 ? own : std::ssize(ready);  // all that are left are borrowed
  if (workers == 0) return std::nullopt;
  const double us =
      queue->second.mean_cost() * static_cast<double>(queue->second.size()) / static_cast<double>(workers);
  return microseconds(static_cast<microseconds::rep>(std::min(us, 1e15)));
}

void Dispatcher::cancel(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const Waiting& waiting = found->second;
  const bool running = waiting.running;
  const auto call = waiting.call;
  if (const auto queue = queues_.find(queue_of(waiting)); !running && queue != queues_.end()) {
    queue->second.remove(id);
  }
  no_suspect(id);
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
    std::vector<QueueKey> wanting;
    for (const auto& [key, queue] : queues_) {
      if (pump_queue(key, Reach::own)) wanting.push_back(key);
    }
    // After all have had their own: nobody borrows a place that its pool waits for.
    for (const QueueKey& key : wanting) pump_queue(key, Reach::all);
  } while (pump_again_);
  pumping_ = false;
  // Models come and go; their queues must not pile up.
  if (queues_.size() > kSpareQueues) std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
  if (resolved_at_.size() > kSpareQueues) resolved_at_.clear();
  if (others_.size() > kSpareQueues) others_.clear();
}

/// True: its first call found no place, and other pools have workers that may have one.
bool Dispatcher::pump_queue(const QueueKey& key, Reach reach) {
  FairQueue& queue = queues_.at(key);
  if (queue.empty() || leave_empty_pool(key, queue)) return false;
  bool others_may_lend = false;
  const model::Record& record = *jobs_.at(queue.front()).job.record;
  if (pool_.service(record) != Service::ready) {
    // A long queue that waits for a model to load is not walked for each answer of all the others.
    const std::uint64_t generation = pool_.generation();
    std::uint64_t& seen = resolved_at_[key];
    if (std::exchange(seen, generation) != generation) resolve_again(queue);
  }
  // Those that were refused wait for certain workers. They stay the first, and hold up nobody behind them.
  constexpr std::size_t kMostPassed = 64;
  std::vector<JobId> passed;
  while (!queue.empty()) {
    const JobId id = queue.front();
    Waiting& waiting = jobs_.at(id);
    // Whoever waits for it will end it any moment; but nobody runs it meanwhile.
    if (waiting.job.call.deadline <= Clock::now() && id != submitting_) {
      queue.remove(id);
      fail(id, Error{Errc::deadline_exceeded, "its time was up before a worker was free"});
      continue;
    }
    if (!waiting.refusals.empty() && all_refuse(waiting)) {  // who was to take it after those is gone, too
      queue.remove(id);
      fail(id, Error{Errc::overloaded, "all workers of model " + waiting.job.model + " say that they have enough"});
      continue;
    }
    const Handed handed = hand_over(id, waiting, reach);
    if (handed == Handed::yes) {
      waiting.charged = queue.pop();
      continue;
    }
    others_may_lend |= handed == Handed::others_may_lend;
    if (waiting.refusals.empty() || passed.size() == kMostPassed) break;
    queue.remove(id);
    passed.push_back(id);
  }
  for (auto id = passed.rbegin(); id != passed.rend(); ++id) {
    if (const auto found = jobs_.find(*id); found != jobs_.end())  // else it was called off meanwhile
      queue.put_back(*id, owner_of(found->second.job.call), 0);
  }
  return others_may_lend;
}

/// Of a job that is in no queue. What it sets off may submit and cancel others.
void Dispatcher::fail(JobId id, Error error) {
  JobResult result;
  result.outputs = std::move(error);
  tell(jobs_.at(id), result, Clock::now());
  finish(id, std::move(result));
}

/// Nobody is ready for what these calls wait for. Each goes to where its model is served by now, if that is elsewhere.
void Dispatcher::resolve_again(FairQueue& queue) {
  std::vector<std::pair<JobId, Error>> failed;
  for (const JobId id : queue.items()) {
    Job& job = jobs_.at(id).job;
    const worker_pool::Resolved now = pool_.resolve(*job.config, job.model, job.version);
    if (now.service != Service::none && key_of(*now.record) == key_of(*job.record)) continue;
    queue.remove(id);
    if (now.service == Service::none) {
      failed.emplace_back(
          id, Error{Errc::model_unavailable, "model " + job.record->name + " version " + job.record->version +
                                                 " has no worker left" + why_no_worker(pool_, *job.record)});
    } else if (Outcome<void> fits = fit(*now.record, job.call); !fits) {
      failed.emplace_back(id, fits.error());
    } else if (Outcome<void> anew = may_begin_anew(jobs_.at(id), *now.record); !anew) {
      failed.emplace_back(id, anew.error());
    } else {
      job.record = now.record;
      enqueue(id);
      pump_again_ = true;
    }
  }
  for (auto& [id, error] : failed) {
    if (jobs_.contains(id)) fail(id, std::move(error));  // else an earlier one's failure cancelled it
  }
}

Dispatcher::Picked Dispatcher::pick(const Waiting& waiting, const std::vector<plugin::CandidateView>& candidates,
                                    Instant now, explain::ChooserPtr& chooser) {
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
  chooser = chooser_;
  Outcome<plugin::CandidateId> picked = balancer->pick(request, candidates, now);
  if (!picked && picked.error().code == Errc::overloaded) return {std::move(picked)};
  const auto is_there = [&](const plugin::CandidateView& candidate) { return candidate.id == picked.value(); };
  if (picked && std::any_of(candidates.begin(), candidates.end(), is_there)) return {std::move(picked)};
  // A fault of the plugin is not the request's: the least busy one will do. The plugin host counts faults.
  ++own_picks_;
  const auto least = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(a.queued + a.running, a.id) < std::pair(b.queued + b.running, b.id);
  });
  return {least->id, true};
}

Dispatcher::Handed Dispatcher::hand_over(JobId id, Waiting& waiting, Reach reach) {
  const bool explained = waiting.job.explained;
  bool others_may_lend = false;
  explain::Pick noted;
  std::vector<plugin::CandidateView> candidates;
  const auto see = [&](const worker_pool::WorkerView& worker, explain::Standing standing) {
    if (explained) add_seen(noted, worker, standing);
  };
  const std::vector<worker_pool::WorkerView> ready = pool_.ready(*waiting.job.record);
  const Instant refused_at = waiting.refusals.empty() ? Instant{} : Clock::now();
  for (const worker_pool::WorkerView& worker : ready) {
    if (worker.running >= worker.capacity) {
      see(worker, explain::Standing::full);
    } else if (suspects_.contains(worker.id) && !joins(waiting, worker.id)) {
      see(worker, explain::Standing::alone);
    } else if (is_refused(waiting, worker.id, refused_at)) {
      see(worker, explain::Standing::refused);
    } else if (waiting.deaths > 0 && worker.running > 0 && !suspects_.contains(worker.id)) {
      // A call that a worker died of runs among its like: whoever else is there with it would be suspected as well.
      see(worker, explain::Standing::not_idle);
    } else if (!may_take(waiting, worker, reach)) {
      others_may_lend |= reach == Reach::own;
      see(worker, explain::Standing::kept);
    } else {
      see(worker, explain::Standing::candidate);
      candidates.push_back({.id = plugin::CandidateId{static_cast<std::uint32_t>(worker.id)},
                            .queued = worker.running - runs(worker),
                            .running = runs(worker),
                            .capacity = worker.max_batch,
                            .step_p95 = worker.step_p95});
    }
  }
  const Instant now = candidates.empty() && !explained ? Instant{} : Clock::now();
  noted.at = now;
  while (!candidates.empty()) {
    const Picked picked = pick(waiting, candidates, now, noted.chooser);
    if (!picked.candidate) {  // each is at the balancer's own limit: wait for the next change
      noted.at_limit = true;
      break;
    }
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const auto& candidate) { return candidate.id == picked.candidate.value(); });
    worker_pool::CallSpec spec = waiting.job.call;
    spec.attempt = waiting.deaths;
    pass_parts(id, spec);
    const WorkerId worker{static_cast<std::uint32_t>(chosen->id)};
    auto called = pool_.call(worker, std::move(spec),
                             [this, id](worker_pool::CallAnswer answer) { answered(id, std::move(answer)); });
    if (called) {
      waiting.running = true;
      waiting.call = called.value();
      waiting.worker = worker;
      if (waiting.deaths > 0) suspects_[worker].push_back(id);
      if (explained) {
        noted.chosen = worker;
        keep_chosen(noted, ready);
        noted.stood_in = picked.stood_in;
        note(waiting, std::move(noted));
      }
      return Handed::yes;
    }
    candidates.erase(chosen);  // full or just lost: ask again without it
    for (explain::Seen& seen : noted.seen) {
      if (seen.worker == worker) seen.standing = explain::Standing::refused;
    }
  }
  if (others_may_lend) return Handed::others_may_lend;  // that look is yet to come
  // Of many looks in vain the first one tells why it had to wait.
  const auto& picks = waiting.explained.picks;
  if (explained && (picks.empty() || picks.back().chosen)) note(waiting, std::move(noted));
  return Handed::no;
}

void Dispatcher::answered(JobId id, worker_pool::CallAnswer answer) {
  no_suspect(id);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;  // cancelled meanwhile
  Waiting& waiting = found->second;
  // What a suspect worker hands back unbegun says nothing of how many it will have when it dies.
  const bool lost = !answer.outputs && answer.outputs.error().code == Errc::worker_lost && answer.begun;
  const std::uint32_t lost_together = lost ? lost_with(answer.worker) : 0;  // before it runs no more
  waiting.running = false;
  const Instant now = Clock::now();
  note_end(waiting.explained, answer, now);
  if (waiting.parts > 0) end_stream(waiting, answer);
  // end_stream may have made another error of it.
  if (!answer.outputs && answer.outputs.error().code == Errc::worker_lost) {
    bool deadly = false;
    if (answer.begun) {  // else it only waited there
      waiting.ends.push_back(answer.outputs.error().detail);
      deadly = is_deadly(waiting, waiting.job.record->stream, lost_together);
    }
    if (!deadly) {
      ++retries_;
      enqueue(id);
      pump();
      return;
    }
    ++quarantined_;
    answer.outputs =
        Error{Errc::quarantined, (waiting.deaths == 2 ? std::string("two") : std::to_string(waiting.deaths)) +
                                     " workers of model " + waiting.job.model +
                                     " died while they ran this request: " + answer.outputs.error().detail};
  }
  if (!answer.outputs && answer.outputs.error().code == Errc::overloaded && goes_elsewhere(waiting, answer)) {
    enqueue(id);
    pump();
    return;
  }
  const bool was_refused = !answer.outputs && answer.outputs.error().code == Errc::overloaded;
  // What a model sends back tells nothing of how long a call takes.
  if (const auto queue = queues_.find(queue_of(waiting)); queue != queues_.end() && !was_refused) {
    const std::chrono::duration<double, std::micro> ran = answer.run;
    // Each call of a batch tells the time of the whole: it has its part of it.
    queue->second.ran(owner_of(waiting.job.call), waiting.charged, ran.count() / answer.batch);
  }
  JobResult result;
  // Handed over ahead of time, a call still waits in the worker's ring: all that is not the model's own time is
  // waiting.
  const microseconds ran = std::chrono::duration_cast<microseconds>(answer.run);
  result.queued = std::max(elapsed(waiting.since, now) - ran, microseconds{0});
  // A stream may also wait for whoever takes its parts: that is no queue.
  if (waiting.parts > 0) result.queued = elapsed(waiting.since, waiting.first_part);
  result.run = answer.run;
  result.batch = answer.batch;
  result.worker = answer.worker;
  result.attempts = waiting.deaths + 1;
  result.record = waiting.job.record;
  result.ends = std::move(waiting.ends);
  result.parts = answer.parts;
  result.again = answer.again;
  result.outputs = std::move(answer.outputs);
  tell(waiting, result, now);
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
