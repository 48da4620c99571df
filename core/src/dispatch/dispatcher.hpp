// dispatcher.hpp: brings each call of a step to a worker: waits for one with a place, lets the balancer choose, tries
// once more elsewhere when a worker dies with it. One strand (the node's io loop).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::dispatch {

/// One call that some worker of `model` at `version` shall do.
struct Job {
  std::string task, model, version;
  worker_pool::CallSpec call;
};

struct JobResult {
  Outcome<std::vector<worker_pool::TensorRef>> outputs = Error{};
  microseconds queued{0};           // from submit to answer, without the time inside the model
  std::chrono::nanoseconds run{0};  // inside the model
  WorkerId worker{};
  std::uint32_t attempts = 0;
};

struct ModelLoad {
  std::uint32_t queued = 0, running = 0;
};

class Dispatcher {
 public:
  /// `queue_limit`: calls that may wait for one model; one more is refused.
  Dispatcher(worker_pool::WorkerPool& pool, std::shared_ptr<plugin::Balancer> balancer, std::size_t queue_limit);

  using JobId = std::uint64_t;
  using Done = std::function<void(JobResult)>;
  /// `done` is called exactly once, never from inside submit. Errors: overloaded (the queue is full); model_unavailable
  /// (no worker of that model is there or still coming).
  Outcome<JobId> submit(Job job, Done done);
  /// Forgets the job: `done` is not called any more. A running call ends in its worker and its answer is dropped.
  void cancel(JobId job);

  /// Calls that wait and run, by model name.
  std::map<std::string, ModelLoad> load() const;
  std::uint64_t retries() const { return retries_; }
  std::uint64_t quarantined() const { return quarantined_; }

  /// To be called when a worker became ready, has a free place, or is gone.
  void pump();

 private:
  struct Waiting {
    Job job;
    Done done;
    Instant since{};
    std::uint32_t deaths = 0;  // workers that died with it
    bool running = false;
    worker_pool::WorkerPool::CallId call = 0;
  };
  using ModelKey = std::pair<std::string, std::string>;

  void pump_model(const ModelKey& key, std::list<JobId>& queue);
  bool hand_over(JobId id, Waiting& waiting);
  void answered(JobId id, worker_pool::CallAnswer answer);
  void finish(JobId id, JobResult result);
  void enqueue(const ModelKey& key, JobId id, std::uint8_t priority, bool first);
  bool can_ever_run(const std::string& model, const std::string& version) const;

  worker_pool::WorkerPool& pool_;
  std::shared_ptr<plugin::Balancer> balancer_;
  std::size_t queue_limit_;
  JobId next_id_ = 1;
  std::unordered_map<JobId, Waiting> jobs_;
  std::map<ModelKey, std::list<JobId>> queues_;
  std::map<WorkerId, JobId> alone_;  // workers that run a call which a worker died of: they get no other meanwhile
  std::uint64_t retries_ = 0;
  std::uint64_t quarantined_ = 0;
  bool pumping_ = false;
  bool pump_again_ = false;
};

}  // namespace gearbox::dispatch
