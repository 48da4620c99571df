// dispatcher.hpp: brings each call of a step to a worker: waits for one with a place, lets the balancer choose, tries
// once more elsewhere when a worker dies with it, or when the version it waits for is taken away, and with others when
// a model says that it has enough for now. Once parts of a streamed answer have been handed on, only a repeatable model
// is tried again, and what it gives a second time is left out; else the call ends as stream_broken. One strand (the
// node's io loop).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "dispatch/fair_queue.hpp"
#include "explain/trace.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::dispatch {

/// One call that a worker of `record`'s model shall do, or of what `model` and `version` (exact, "latest", or a range)
/// stand for later, when that is not served any more.
struct Job {
  std::string task, model, version;
  std::string pool;                             // that the request belongs to; empty: none
  config::Snapshot config;                      // in which the two are looked up
  std::shared_ptr<const model::Record> record;  // resolve()'s answer
  worker_pool::CallSpec call;                   // fits `record`, see fit()
  bool explained = false;                       // its picks are noted down
};

/// Checks the inputs of `call` against `record` and asks for as much room as its outputs may take.
/// Errors: bad_input.
Outcome<void> fit(const model::Record& record, worker_pool::CallSpec& call);

struct JobResult {
  Outcome<std::vector<worker_pool::TensorRef>> outputs = Error{};
  microseconds queued{0};           // from submit to answer, without the time inside the model
  std::chrono::nanoseconds run{0};  // inside the model
  std::uint32_t batch = 1;          // calls that the model got together
  WorkerId worker{};
  std::uint32_t attempts = 0;
  std::shared_ptr<const model::Record> record;  // which it was in the end
  explain::Call explained;                      // of a job that is
  std::vector<std::string> ends;                // how the workers ended that died with it
  std::uint32_t parts = 0;                      // of a model that streams: handed to on_part
  milliseconds again{0};                        // of overloaded, where the model says so: when to ask again
};

struct ModelLoad {
  std::uint32_t queued = 0, running = 0;
};

class Dispatcher {
 public:
  /// `queue_limit`: calls that may wait for one model; one more is refused.
  /// `chooser`: which build `balancer` is of; told to those who ask why.
  Dispatcher(worker_pool::WorkerPool& pool, std::shared_ptr<plugin::Balancer> balancer, std::size_t queue_limit,
             explain::ChooserPtr chooser = nullptr);

  /// From the next pick on. The balancer that was there may be in use by others; it is let go here.
  void use(std::shared_ptr<plugin::Balancer> balancer, explain::ChooserPtr chooser = nullptr);
  /// From the next submit on.
  void limit(std::size_t queue_limit) { queue_limit_ = queue_limit; }

  /// What `model` at `version` stands for just now; see WorkerPool::resolve.
  worker_pool::Resolved resolve(const config::Config& config, std::string_view model, std::string_view version) const {
    return pool_.resolve(config, model, version);
  }

  using JobId = std::uint64_t;
  using Done = std::function<void(JobResult)>;
  /// `done` is called exactly once, never from inside submit. Errors: deadline_exceeded (it has passed already);
  /// overloaded (the queue is full); model_unavailable (no worker of that record is there or still coming).
  Outcome<JobId> submit(Job job, Done done);
  /// Forgets the job: `done` is not called any more. It leaves its queue; of a running call see WorkerPool::cancel.
  void cancel(JobId job);
  /// What has been noted of a job that is neither answered nor cancelled; nullopt of one that is not explained.
  std::optional<explain::Call> explained(JobId job) const;

  worker_pool::Service service(const model::Record& record) const { return pool_.service(record); }

  /// Would submit() refuse a call of `pool` for `record` because its queue is full?
  bool is_full(const model::Record& record, std::string_view pool) const;
  /// How long the ready workers of `record` need for what waits for them in that queue, as measured; nullopt while
  /// nothing was.
  std::optional<microseconds> backlog(const model::Record& record, std::string_view pool) const;

  /// Calls that wait and run, by model name.
  std::map<std::string, ModelLoad> load() const;
  std::uint64_t retries() const { return retries_; }
  std::uint64_t quarantined() const { return quarantined_; }
  /// Picks that the balancer owed, or got wrong: the least busy candidate was taken instead.
  std::uint64_t own_picks() const { return own_picks_; }

  /// To be called when a worker became ready, has a free place, or is gone.
  void pump();

 private:
  struct Waiting {
    Job job;
    Done done;
    Instant since{};
    std::string pool;            // whose queue it is in: the job's, as long as that has a worker
    std::uint32_t deaths = 0;    // workers that died with it
    std::uint32_t together = 1;  // of a suspect: so many of them may run in one worker
    WorkerId worker{};           // of the running call
    explain::Call explained{};   // empty until it is handed over, or waits at the head of its queue
    std::vector<std::string> ends;
    bool running = false;
    double charged = 0;  // for its last way out of the queue; see FairQueue::pop
    worker_pool::WorkerPool::CallId call = 0;
    std::uint32_t parts = 0;  // handed on: from the first one on only a repeatable model can begin anew
    Instant first_part{};
    std::uint64_t digest = 0;  // of the parts handed on, where the model is repeatable
    std::uint64_t again = 0;   // of those that the present try gave
    bool differs = false;      // the present try did not give what had been handed on
    struct Refusal {
      WorkerId worker{};
      Instant until{};  // it is not asked before
    };
    std::vector<Refusal> refusals{};  // workers whose model said that it is overloaded
  };
  using ModelKey = std::tuple<std::string, std::string, std::string>;  // name, version, digest
  static ModelKey key_of(const model::Record& record) { return {record.name, record.version, record.digest}; }

  struct QueueKey {
    ModelKey model;
    std::string pool;
    auto operator<=>(const QueueKey&) const = default;
  };
  static QueueKey queue_of(const Waiting& waiting) { return {key_of(*waiting.job.record), waiting.pool}; }
  enum class Reach : std::uint8_t {
    own,  // workers of the call's pool
    all   // and those that other pools lend
  };

  bool pump_queue(const QueueKey& key, Reach reach);
  void resolve_again(FairQueue& queue);
  // pools.cpp
  std::string pool_for(const model::Record& record, std::string_view wished) const;
  bool leave_empty_pool(const QueueKey& key, FairQueue& queue);
  bool lends(const worker_pool::WorkerView& worker, const model::Record& record) const;
  bool may_take(const Waiting& waiting, const worker_pool::WorkerView& worker, Reach reach) const;
  void fail(JobId id, Error error);
  enum class Handed : std::uint8_t { yes, no, others_may_lend };
  Handed hand_over(JobId id, Waiting& waiting, Reach reach);
  // streams.cpp
  void pass_parts(JobId id, worker_pool::CallSpec& spec);
  static void end_stream(const Waiting& waiting, worker_pool::CallAnswer& answer);
  static Outcome<void> may_begin_anew(const Waiting& waiting, const model::Record& record);
  // suspects.cpp
  std::uint32_t lost_with(WorkerId worker);
  bool is_deadly(Waiting& waiting, bool streams, std::uint32_t lost_together);
  bool joins(const Waiting& waiting, WorkerId worker) const;
  void no_suspect(JobId id);
  // refusals.cpp
  bool goes_elsewhere(Waiting& waiting, worker_pool::CallAnswer& answer) const;
  static bool is_refused(const Waiting& waiting, WorkerId worker, Instant now);
  bool all_refuse(const Waiting& waiting) const;
  struct Picked {
    Outcome<plugin::CandidateId> candidate = Error{};
    bool stood_in = false;
  };
  Picked pick(const Waiting& waiting, const std::vector<plugin::CandidateView>& candidates, Instant now,
              explain::ChooserPtr& chooser);
  explain::OthersPtr others(const model::Record& record);
  void note(Waiting& waiting, explain::Pick pick);
  static void tell(Waiting& waiting, JobResult& result, Instant now);
  void answered(JobId id, worker_pool::CallAnswer answer);
  void finish(JobId id, JobResult result);
  void enqueue(JobId id);

  worker_pool::WorkerPool& pool_;
  std::shared_ptr<plugin::Balancer> balancer_;
  explain::ChooserPtr chooser_;
  std::size_t queue_limit_;
  JobId next_id_ = 1;
  JobId submitting_ = 0;  // is not answered before submit() returns
  std::unordered_map<JobId, Waiting> jobs_;
  std::map<QueueKey, FairQueue> queues_;
  std::map<QueueKey, std::uint64_t> resolved_at_;  // the pool's generation when a queue was resolved again
  struct OthersAt {
    std::uint64_t generation = 0;
    explain::OthersPtr others;
  };
  std::map<ModelKey, OthersAt> others_;  // made again when the pool's generation is another
  // Workers that run calls which a worker died of: they get no others meanwhile.
  std::map<WorkerId, std::vector<JobId>> suspects_;
  std::map<WorkerId, std::uint32_t> lost_with_;  // how many calls a worker had that was lost lately
  std::uint64_t retries_ = 0;
  std::uint64_t quarantined_ = 0;
  std::uint64_t own_picks_ = 0;
  bool pumping_ = false;
  bool pump_again_ = false;
};

}  // namespace gearbox::dispatch
