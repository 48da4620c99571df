// worker_pool.hpp: the node's workers: it has them started, lets them attach, hands them calls over their rings, takes
// the answers, and notices when one is gone. One strand (the node's io loop) for everything.
#pragma once

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/layout.hpp"
#include "gearbox/wire/tensor.hpp"
#include "gpu/gpu.hpp"

namespace gearbox::worker_pool {

/// A piece of an arena; freed when the last holder lets go. For the input arena `bytes()` is writable by the node; for
/// a worker's output arena it is the node's view of what the worker wrote.
class Slab {
 public:
  virtual ~Slab() = default;
  virtual ByteSpan bytes() = 0;
  virtual shm::ArenaId arena() const = 0;
  virtual std::uint64_t offset() const = 0;
};
using SlabPtr = std::shared_ptr<Slab>;

/// A tensor that lies in a slab: what steps hand on to each other.
struct TensorRef {
  wire::TensorSpec spec;
  std::uint32_t item = 0;  // position in a list output
  SlabPtr slab;
  std::uint64_t offset = 0;  // bytes from the slab's start
  ByteView bytes() const { return slab->bytes().subspan(offset, spec.bytes); }
};

/// One part of a streamed answer. Its bytes lie in one of the few rooms of the call's grant: the worker goes on with
/// the next part but so many only when all parts before are let go of. Whoever holds them slows down the model.
struct StreamPart {
  std::uint32_t number = 0;  // from 0, in order
  std::vector<TensorRef> tensors;
};

struct CallSpec {
  std::vector<TensorRef> inputs;  // spec.name = the model's input name
  Instant deadline{};             // Instant::max(): none
  std::uint32_t attempt = 0;
  std::uint32_t tenant = 0;
  std::uint32_t weight = 1;       // of the tenant, among those that wait for the same model
  std::uint8_t priority = 0;      // higher is sooner
  bool gathered = false;          // one of many whose answers are kept until all are there
  std::uint64_t seed = 0;         // of the request: the same each time that it is run; 0: none
  std::uint64_t grant_bytes = 0;  // room for the answer, or for each part of it; record.max_output_bytes
  /// Of a model that streams: called on the strand for each part, before `answered`. Empty: parts are dropped.
  std::function<void(StreamPart)> on_part;
};

struct CallAnswer {
  Outcome<std::vector<TensorRef>> outputs =
      Error{};  // Errors: model_failed, worker_lost, bad_result, result_too_large, cancelled, overloaded
  std::chrono::nanoseconds run{0};
  std::uint32_t batch = 1;  // calls that the model got together, this one included
  WorkerId worker{};
  bool begun = true;  // of worker_lost: the worker had taken it from the ring; else it cannot be what ended the worker
  std::uint32_t parts = 0;         // of a model that streams: handed to on_part; the outputs are empty then
  std::uint32_t input_tokens = 0;  // as the model told them; 0: it did not
  milliseconds again{0};  // of overloaded: when the model wants to be asked again, as it says; 0: it does not say
};

/// Whose calls a slot serves first.
struct PoolPlace {
  std::string name;                   // of the pool; empty: none
  bool classes = false;               // there are requests that belong to it; else it says nothing of whom to serve
  std::uint32_t lends_percent = 100;  // of its places, to calls of others
  /// The pool of calls that are its own; empty: of those that belong to none.
  std::string_view serves() const { return classes ? std::string_view(name) : std::string_view(); }
  bool operator==(const PoolPlace&) const = default;
};

struct WorkerView {
  WorkerId id{};
  std::string model, version;
  std::string digest;    // of the model's record
  std::string state;     // waiting, starting, loading, probing, ready, suspect, draining, gone, failed
  bool retired = false;  // not wanted by the present configuration; it serves until another does, or drains
  std::string reason;    // of failed: the last error; of waiting: for what
  int pid = 0;
  std::uint32_t place = 0;     // N of "worker-N"; given again when its slot has gone
  std::uint32_t running = 0;   // handed over and not yet answered: max_batch may run at once, the others wait there
  std::uint32_t capacity = 0;  // how many may be handed over at once: the record's max_batch + prefetch, at most 128
  std::uint32_t max_batch = 1;
  std::uint64_t calls = 0, failures = 0;
  double mean_batch = 0;                 // of what it has answered so far; 0: nothing yet
  microseconds step_p95{0};              // over the last 10 s
  std::uint32_t restarts = 0;            // of this slot
  bool reattached = false;               // an earlier node had started its process
  std::uint64_t memory_bytes = 0;        // of its own, without what it shares; as of the last look
  std::uint64_t memory_limit_bytes = 0;  // 0: none
  PoolPlace pool;
  std::string devices;              // as the configuration says
  std::vector<std::string> gpus;    // that it has a seat on: UUIDs, or indexes; see gpu::find
  std::uint64_t gpu_memory_mb = 0;  // what its record says it needs, on all of them; 0: each is its own
};

/// A GPU of this host and who has a seat on it.
struct GpuView {
  gpu::Gpu gpu;
  std::uint64_t left_mb = 0;      // what a further worker may need; 0 as well where nothing may be put
  std::vector<WorkerId> workers;  // by id
};

/// What the workers of one model's record can do for a call.
enum class Service {
  none,    // there are none, or they failed, or are not wanted any more
  coming,  // none is ready, but one is starting, suspect or between two lives
  ready
};

/// Which record serves a model that a task names, and what its workers are up to.
struct Resolved {
  std::shared_ptr<const model::Record> record;  // the pool's own, or a copy; null: nobody knows that model
  Service service = Service::none;
};

/// Starts processes; the supervisor's client in a node, a fork in tests.
class Launcher {
 public:
  virtual ~Launcher() = default;
  struct Order {
    std::string role;  // "worker-3": for logs and records
    std::vector<std::string> argv;
    std::vector<std::string> env;    // NAME=value, added to the launcher's own
    std::uint64_t memory_limit = 0;  // bytes that the process may use, enforced where the host can; 0: none
  };
  /// Calls back on the pool's strand with the pid (for pidfd_open) or an Error.
  virtual void launch(Order order, std::function<void(Outcome<int>)> started) = 0;
  /// SIGTERM, and SIGKILL after `grace`.
  virtual void stop(int pid, milliseconds grace) = 0;
  /// No launch is wanted any more: those that were not begun are called back with `cancelled` soon. One that was begun
  /// may still bring its pid.
  virtual void cancel_all() = 0;

  /// How a process that has ended did so.
  struct End {
    std::string how;        // for people: "exit code 3", "killed by signal 9 (SIGKILL)"; empty: nobody knows
    bool outgrown = false;  // the host ended it: it took more than its memory limit
  };
  /// Calls back once on the pool's strand, at once or within half a second.
  virtual void how_ended(int pid, std::function<void(End)> told);
  /// Another memory limit for a process that runs; 0: none.
  virtual void limit(int pid, std::uint64_t memory_limit);

  /// A worker process that runs, whoever asked for it.
  struct Running {
    int pid = 0;
    std::string role;
    std::vector<std::string> argv;
  };
  /// Which there are; asked once, before the first launch. Calls back on the pool's strand, at once or within `within`.
  /// Errors: any, when that cannot be known. A launcher whose processes never outlive their node has none to tell of.
  virtual void list(milliseconds within, std::function<void(Outcome<std::vector<Running>>)> listed);
};

class WorkerPool {
 public:
  /// Periods and limits that only tests and special installations change.
  struct Timing {
    milliseconds heartbeat{350};  // between two looks at each worker; an idle one is pinged
    milliseconds frozen{1400};    // no sign of life for so long, as far as the node itself ran: it is killed; suspect
                                  // after half of it
    milliseconds late{1200};      // one that beats, but answers no ping or takes no call for so long, is suspect
    milliseconds silent{10000};   // and after so long killed
    milliseconds memory_look{1000};   // between two looks at what memory it uses
    milliseconds leak_grace{1000};    // for the calls of a worker that uses more than it may, before it is killed
    milliseconds backoff_first{200};  // before a worker is started again; doubled each time
    milliseconds backoff_most{30000};
    milliseconds stable{10000};        // ready for so long: the backoff begins anew
    std::uint32_t start_tries = 5;     // starts in a row that never got ready, then the slot has failed
    milliseconds retry_failed{60000};  // a failed slot is started again once
    milliseconds stop_grace{3000};     // SIGTERM → SIGKILL
  };
  struct Setup {
    boost::asio::io_context* io = nullptr;
    config::StateDir state;
    config::Snapshot config;  // limits, workers, envs, models
    std::shared_ptr<Launcher> launcher;
    std::filesystem::path shim;  // the worker_shim executable
    /// Asks for a look at the GPUs soon, which gpus_seen() then brings. Empty: nobody looks, as where there is no NVML.
    std::function<void()> look_at_gpus;
    Timing timing{};
  };
  /// Makes the input arena (fully allocated) and listens on the workers socket.
  /// Errors: no_space (how much was wanted, how much there is), io_error.
  static Outcome<std::unique_ptr<WorkerPool>> create(Setup setup);
  ~WorkerPool();

  void start_workers();  // as the configuration says; restarts with backoff up to a count
  /// Follows another snapshot: what it wants and is there goes on; what is missing is started beside; what it does not
  /// want is retired: it serves on until a successor is ready and no request holds a snapshot that wanted it, then it
  /// drains, ends, and gives its memory back. Of the limits only spin_us concerns workers that run. Arenas keep their
  /// sizes: input_arena_mb and output_arena_mb must be what they were. Not from inside an answer or on_change.
  void apply(config::Snapshot config);

  /// What there is of GPUs now. Workers that wait for one are started where it has become possible.
  void gpus_seen(gpu::Look look);
  /// As of the last look.
  std::vector<GpuView> gpus() const;
  const gpu::Look& gpu_look() const;

  /// Room in the input arena. Errors: no_space, at once.
  Outcome<SlabPtr> allocate(std::uint64_t bytes);

  /// All workers, by id. Ready ones of a model: state == "ready".
  std::vector<WorkerView> workers() const;
  std::vector<WorkerView> ready(std::string_view model, std::string_view version) const;
  /// Those that run just this record (name, version, digest).
  std::vector<WorkerView> ready(const model::Record& record) const;
  Service service(const model::Record& record) const;
  /// Another number when a worker came, went, or changed its state: what resolve() says may be another thing then.
  std::uint64_t generation() const;
  /// Which record a request that holds `config` uses for `model` at `version` (exact, "latest", or a range: only
  /// versions that it admits) just now. What is ready goes before what is coming. Of that: the newest version that
  /// `config` has, in the very content that `config` knows; then the newest that other snapshots have or had, provided
  /// it takes and gives what `config`'s own does. Nothing serves: what `config` names, with Service::none.
  Resolved resolve(const config::Config& config, std::string_view model, std::string_view version) const;

  using CallId = std::uint64_t;
  using Answered = std::function<void(CallAnswer)>;
  /// Hands the call to that worker. `answered` is called exactly once, later, on the strand.
  /// Errors: overloaded (its ring or its output arena is full), worker_lost, no_space (no room for the call block).
  Outcome<CallId> call(WorkerId worker, CallSpec spec, Answered answered);
  /// The answer will be `cancelled`, at once; what the worker says later is dropped and its slabs freed then. A call
  /// that waits in the ring is not run. For one that runs, a worker whose record says cancel_by_restart is replaced;
  /// its other calls are answered worker_lost, not begun.
  void cancel(CallId call);

  /// Called on the strand when a worker becomes ready, frees a place, or is gone.
  void on_change(std::function<void()> changed);

  /// Takes what the rings hold; returns how many answers. The node's loop calls it between polls of the io_context.
  std::size_t poll();
  /// Runs the io_context: polls rings and reactor, spins for the configured time while answers are expected, then
  /// sleeps on doorbells and reactor together. Returns when the io_context is stopped.
  void run();

  /// Closes all attachments, ends all workers (SIGTERM, then SIGKILL) and calls back when the last is gone.
  void stop(std::function<void()> stopped);

  struct Memory {
    std::uint64_t input_bytes = 0, input_used = 0, output_bytes = 0, output_used = 0;
  };
  Memory memory() const;

  /// Workers that the pool has ended, since it began.
  struct Ended {
    std::uint64_t frozen = 0;     // gave no sign of life
    std::uint64_t stuck = 0;      // beat, but answered nothing within a limit
    std::uint64_t outgrown = 0;   // used more memory than they may
    std::uint64_t cancelled = 0;  // ran a call that nobody waited for any more
  };
  Ended ended() const;

  /// Workers that an earlier node had started.
  struct CameBack {
    std::uint64_t taken = 0;    // serve this node, with the model that they had loaded
    std::uint64_t refused = 0;  // told to end: what they hold is not wanted as it is
    std::uint64_t late = 0;     // did not come in time
  };
  CameBack came_back() const;

 private:
  struct State;
  explicit WorkerPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::worker_pool
