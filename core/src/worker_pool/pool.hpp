// pool.hpp: the pool's inside: one Worker per configured slot, and the Pool that decides which slots there are
// (follow.cpp), moves them through their lives (lives.cpp, attaching.cpp, watching.cpp, stopping.cpp), hands them calls
// and takes their answers (calls.cpp) or gives them up (cancelling.cpp), and waits for both (loop.cpp). One strand.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/spin.hpp"
#include "gpu/placement.hpp"
#include "worker_pool/arena_slabs.hpp"
#include "worker_pool/attach_listener.hpp"
#include "worker_pool/attachment.hpp"
#include "worker_pool/step_window.hpp"
#include "worker_pool/stream_call.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::worker_pool {

namespace asio = boost::asio;

/// waiting: no process yet, for want of a GPU to put it on · starting: ordered from the launcher · loading: has a pid ·
/// probing: attached, first round trip under way · ready · suspect: does not answer in time · draining: not wanted any
/// more, or grown too large; it answers what it has, then ends · gone: its process has ended, or is being killed ·
/// failed: tried again only after a minute, or when the model's folder changes.
enum class Life { waiting, starting, loading, probing, ready, suspect, draining, gone, failed };
std::string_view name_of(Life life);

/// A call number tells its worker's slot, so that a call is found without a table.
inline constexpr std::uint64_t kSlotBits =
    24;  // slots are not given again: sixteen million changes of the configuration
inline std::uint32_t slot_of(WorkerPool::CallId call) {
  return static_cast<std::uint32_t>(call & ((std::uint64_t{1} << kSlotBits) - 1));
}

/// A call that the worker holds. Its slabs are kept until it is answered or the process is gone, also after the caller
/// has got an error: until then the worker may still read and write there.
struct Running {
  WorkerPool::CallId id = 0;
  std::uint32_t attempt = 0;
  bool probe = false;
  bool unwanted = false;          // cancelled when the worker had begun it
  bool gathered = false;          // as in its CallSpec
  std::uint64_t place = 0;        // among all entries of its ring, from 1: taken when so many were
  Instant handed{};               // before the worker could see it
  WorkerPool::Answered answered;  // empty once the caller has its answer
  std::vector<TensorRef> inputs;
  SlabPtr block;
  SlabPtr grant;
  std::shared_ptr<StreamCall> stream;  // null: its answer comes in one
};

/// Is it this host that lacks something, or stops, so that the model is not to blame?
bool passes_by_itself(Errc code);

/// Another number when a file of the folder was written, added or removed. Without reading them.
std::size_t stamp_of(const std::filesystem::path& folder);

/// Name, version and content are the same.
bool is_same_model(const model::Record& a, const model::Record& b);

/// What a slot's process is started with. Slots of equal settings stand in for each other.
struct Settings {
  std::shared_ptr<const model::Record> record;  // a copy: a worker keeps no snapshot of the configuration alive
  std::string env, python, devices;
  std::uint64_t memory_limit = 0;  // bytes; 0: none. Not compared: it holds for the process that runs, too
  PoolPlace pool;                  // not compared either: it is the slot's
  bool operator==(const Settings& other) const;
};

/// Why a worker that says `hello` cannot be taken for a slot with these settings; empty: it can.
std::string misfit(const shm::WorkerHello& hello, const Settings& wanted);

/// A number for one life of a node: no other has it.
std::string random_origin();

/// One slot: the same model in the same environment, in one process after another.
struct Worker : Settings {
  Worker(asio::io_context& io, Settings settings)
      : Settings(std::move(settings)), process(io), leave(io), restart(io), unwanted(io) {}

  std::uint32_t slot = 0;   // from 1, never given again; its output arena has the same number
  std::uint32_t place = 0;  // from 1, the lowest that is free: for people, and names of logs and records
  std::shared_ptr<ArenaSlabs> output;

  std::vector<std::weak_ptr<const config::Config>>
      wanted_by;             // snapshots; requests that run may still hold earlier ones
  bool retired = false;      // the present configuration does not want it; it is not started again
  bool surplus = false;      // of retired: others with the same settings stay
  bool outgrown = false;     // of draining: because it uses more memory than it may; started again afterwards
  bool oversized = false;    // it uses more memory than it may; it serves until another one, beside it, is ready
  bool told_to_end = false;  // of draining
  Instant told_at{};

  gpu::Seat seat;         // kept from one life to the next, until it is given up or another is chosen
  Instant ended{};        // when its last process was gone
  bool hopeless = false;  // of waiting: nothing that happens here can end it

  bool awaiting = false;    // no process was ordered: one of the earlier node may come
  int awaited = 0;          // of awaiting: just that one; 0: any that fits
  bool reattached = false;  // the present process was started by an earlier node

  WorkerId id{};  // of the present process
  Life life = Life::gone;
  std::string reason;                      // why it ended last
  std::string said;                        // by this process, before it ended
  int pid = 0;                             // 0: none known
  int last_pid = 0;                        // of the present or the last process
  bool launching = false;                  // the launcher has not called back yet
  bool alive = false;                      // the pidfd has not fired yet
  bool leaving = false;                    // its socket is closed, or its process has ended: how is being found out
  asio::posix::stream_descriptor process;  // the pidfd
  asio::steady_timer leave;                // of one whose socket is closed: its process should have ended
  std::shared_ptr<Attachment> attachment;
  std::optional<std::pair<shm::Fd, shm::WorkerHello>> early;  // it dialled before the launcher told its pid
  int early_pid = 0;
  asio::steady_timer restart;
  asio::steady_timer unwanted;  // when it fires, a call that was cancelled has had time enough to end
  bool start_at_once = false;   // its end was ours, for no fault of the model or its slot
  Instant since{};              // start of this life
  Instant ready_since{};
  bool was_ready = false;        // in this life
  std::uint32_t starts = 0;      // all of them
  std::uint32_t bad_starts = 0;  // in a row, that never got ready
  bool excused = false;          // this start came to nothing, but not for the model's sake
  milliseconds backoff{0};
  Instant failed_since{}, folder_seen{};
  std::size_t folder_stamp = 0;  // of the model's folder when it failed

  std::vector<Running> running;  // oldest first
  Instant busy_since{};          // of the oldest: handed over, or its predecessor answered
  WorkerPool::CallId ping = 0;   // not answered yet; 0: none
  Instant ping_sent{};
  std::uint64_t beat = 0;    // its sign of life when it was last looked at
  Clock::duration still{0};  // since it changed, as far as the node itself ran
  std::uint64_t memory = 0;  // bytes of its own
  Instant weighed{};
  Instant outgrown_at{};
  shm::SpinBudget spin;
  StepWindow steps;
  std::uint64_t calls = 0, failures = 0;
  std::uint64_t answers = 0, batches = 0;  // of calls; how often the model was asked for them
  std::uint32_t batch_left = 0;            // answers that the batch whose first one came still owes

  std::uint32_t capacity() const;
  shm::PartRooms part_rooms(std::uint64_t part_bytes) const;
  bool attached() const { return attachment != nullptr; }
  /// Has it begun that call, of which it had taken `taken` from its ring?
  static bool has_begun(const Running& call, std::uint64_t taken);
  /// Has it a call whose caller still waits?
  bool owes_answers() const;
  /// Has it not even begun the oldest call it was handed?
  bool takes_nothing() const {
    return attached() && !running.empty() && running.front().place > attachment->requests.taken();
  }
  /// Is there a process, or will there be one?
  bool has_process() const { return alive || launching; }
};

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static Outcome<std::shared_ptr<Pool>> create(WorkerPool::Setup setup);
  explicit Pool(WorkerPool::Setup setup);

  // follow.cpp
  void start_workers();
  void apply(config::Snapshot config);

  // resolve.cpp
  Service service(const model::Record& record) const;
  Resolved resolve(const config::Config& config, std::string_view model, std::string_view version) const;

  // seating.cpp
  void gpus_seen(gpu::Look look);
  std::vector<GpuView> gpus() const;

  // stopping.cpp
  void stop(std::function<void()> stopped);
  void close();  // drops everything without waiting

  // calls.cpp
  Outcome<WorkerPool::CallId> call(WorkerId worker, CallSpec spec, WorkerPool::Answered answered);
  /// `now`: a look at the clock that is a microsecond or two old at most.
  std::size_t poll(Instant now);

  // cancelling.cpp
  void cancel(WorkerPool::CallId call);

  // loop.cpp
  void run();

  WorkerView view(const Worker& worker) const;
  WorkerPool::Memory memory() const;

  WorkerPool::Setup setup_;
  asio::io_context& io_;
  std::shared_ptr<ArenaSlabs> input_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by slot; changed by follow.cpp only, never while it is walked
  std::function<void()> changed_;
  WorkerPool::Ended ended_;
  WorkerPool::CameBack came_back_;
  gpu::Look gpus_;

 private:
  // follow.cpp
  struct Wanted;
  std::vector<Wanted> wanted_of(const config::Config& config) const;
  void follow();
  void claim(std::vector<Wanted>& wanted, std::vector<Worker*>& spare);
  void retire(const std::vector<Wanted>& wanted, const std::vector<Worker*>& spare);
  Worker& add_slot(const Settings& settings);
  void add(const Settings& settings);
  void add_successors();
  void settle_later();
  void settle();
  bool may_drain(Worker& worker) const;
  bool is_replaced(const Worker& worker) const;
  void drain(Worker& worker);
  void end(Worker& worker);
  void remove_ended();
  void give_arenas_back();

  // lives.cpp
  bool new_life(Worker& worker);
  void start(Worker& worker);
  Launcher::Order order_for(const Worker& worker) const;
  void launched(Worker& worker, Outcome<int> pid);
  void watch_process(Worker& worker);
  void kill(Worker& worker, std::string reason, Errc for_calls);
  void hung_up(Worker& worker);
  void process_gone(Worker& worker);
  void process_ended(Worker& worker);
  void start_again_later(Worker& worker);
  void changed();
  Worker* by_slot(std::uint32_t slot) const;
  Worker* by_id(WorkerId id) const;
  const ArenaSlabs* arena(shm::ArenaId id) const;

  // attaching.cpp
  void arrived(shm::Fd socket, int pid, shm::AttachBody first);
  void attach(Worker& worker, shm::Fd socket, const shm::WorkerHello& hello);
  void refuse(const shm::Fd& socket, std::string reason) const;
  void watch_socket(Worker& worker);
  void say_goodbye(const Worker& worker, std::string reason) const;

  // reattaching.cpp
  struct Earlier {
    explicit Earlier(asio::io_context& io) : process(io) {}
    int pid = 0;
    std::uint32_t place = 0;
    std::vector<std::string> argv;
    std::uint32_t slot = 0;                  // kept for it; 0: none
    asio::posix::stream_descriptor process;  // the pidfd
  };
  void open_window();
  void begin(Worker& worker);
  Worker* keeper_of(const Earlier& earlier) const;
  bool keep_for(Worker& worker, Earlier& earlier);
  void earlier_listed(Outcome<std::vector<Launcher::Running>> running);
  bool watch_earlier(Earlier& earlier);
  void earlier_ended(int pid);
  void settle_window();
  void close_window();
  void end_earlier();
  void came_back(shm::Fd socket, int pid, const shm::WorkerHello& hello);
  void take_back(Worker& worker, shm::Fd socket, int pid, const shm::WorkerHello& hello);

  // seating.cpp
  std::vector<gpu::Holder> holders(const std::function<bool(const Worker&)>& leave_out) const;
  gpu::Holder holder_of(const Worker& worker) const;
  bool seated(Worker& worker);
  void try_waiting(Worker& worker);
  void look_at_gpus() const;
  bool waits_for_seat_of(const Worker& worker) const;
  std::string misplaced(const shm::WorkerHello& hello, const Worker& worker) const;
  void keep_seat(Worker& worker, const shm::WorkerHello& hello) const;

  // watching.cpp
  void tick_later();
  void tick();
  void make_good(Clock::duration lost, Instant now);
  void try_failed(Worker& worker, Instant now);
  void look_after(Worker& worker, Instant now, Clock::duration watched);
  void look_after_ready(Worker& worker, Instant now);
  void look_after_draining(Worker& worker, Instant now);

  // weighing.cpp
  void weigh(Worker& worker, Instant now);
  void outgrow(Worker& worker, Instant now);
  void relieve(Worker& worker);

  // stopping.cpp
  void stop_late();
  void check_stopped();

  // calls.cpp
  Outcome<void> hand_over(Worker& worker, Running running, CallSpec spec, shm::CallKind kind);
  void probe(Worker& worker);
  void send_ping(Worker& worker, Instant now);
  WorkerPool::CallId next_id(const Worker& worker);
  Outcome<void> answered(Worker& worker, const shm::Descriptor& answer, Instant now);
  Outcome<std::vector<TensorRef>> outputs_of(const Worker& worker, const SlabPtr& grant, const shm::Descriptor& answer);
  bool move_out(std::vector<TensorRef>& outputs);
  Outcome<void> read_answer(const Worker& worker, const SlabPtr& grant, const shm::Descriptor& answer);
  void probed(Worker& worker, const CallAnswer& answer, Instant now);
  void hand_back(Worker& worker);
  void end_calls(Worker& worker, const Error& error, std::uint64_t taken);
  void tell_later(const Worker& worker, Running& running, const Error& error, bool begun);
  std::size_t poll(Worker& worker, Instant now);

  // streams.cpp
  void open_stream(Worker& worker, Running& running, CallSpec& spec, shm::Descriptor& descriptor) const;
  Outcome<void> took_part(Worker& worker, Running& running, const shm::Descriptor& part, Instant now);
  void note_waits(Worker& worker, Instant now) const;
  // cancelling.cpp
  void replace_later(Worker& worker);
  void replace(Worker& worker);

  // loop.cpp
  Instant spin_until() const;
  bool may_sleep();
  void wake();

  shm::Block block_;  // of the answer being read: its buffers are used again
  std::unique_ptr<AttachListener> listener_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer ticker_;
  Instant ticked_at_{};
  asio::steady_timer stop_limit_;
  const std::string origin_ = random_origin();  // told to each worker, and by it to whatever node it meets
  asio::steady_timer window_;                   // while it runs, workers of the earlier node may come
  bool window_open_ = false;
  bool earlier_known_ = false;  // the launcher has said which there are
  std::vector<std::unique_ptr<Earlier>> earlier_;
  std::function<void()> stopped_;
  struct Orphan {
    shm::ArenaId id{};
    std::weak_ptr<ArenaSlabs> arena;
  };
  std::vector<Orphan> orphans_;  // arenas of removed slots, whose last slabs may still be in use
  bool started_ = false;
  bool settling_ = false;      // settle() has been posted
  std::size_t unsettled_ = 0;  // retired slots
  bool stopping_ = false;
  std::uint32_t next_slot_ = 1;
  std::uint32_t next_worker_ = 1;
  std::uint64_t next_call_ = 1;
};

}  // namespace gearbox::worker_pool
