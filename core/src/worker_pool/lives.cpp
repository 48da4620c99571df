// How workers come and go. A worker is gone only when its pidfd says so; until then its slabs are not reused.
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <boost/asio/post.hpp>

#include "gearbox/base/text.hpp"
#include "gearbox/shm/call_block.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;
using Wait = asio::posix::stream_descriptor;

bool passes_by_itself(Errc code) {
  return code == Errc::no_space || code == Errc::overloaded || code == Errc::shutting_down || code == Errc::cancelled;
}

namespace {
constexpr milliseconds kLeaveTime{200};  // from the end of its socket to that of its process
}

std::string_view name_of(Life life) {
  switch (life) {
    case Life::waiting:
      return "waiting";
    case Life::starting:
      return "starting";
    case Life::loading:
      return "loading";
    case Life::probing:
      return "probing";
    case Life::ready:
      return "ready";
    case Life::suspect:
      return "suspect";
    case Life::draining:
      return "draining";
    case Life::gone:
      return "gone";
    case Life::failed:
      return "failed";
  }
  return "unknown";
}

std::uint32_t Worker::capacity() const {
  return std::min(record->calls_at_once(), shm::kMostCalls);
}

bool Worker::has_begun(const Running& call, std::uint64_t taken) {
  return call.place <= taken && !shm::is_aside(call.grant->bytes(), call.id);
}

bool Worker::owes_answers() const {
  return std::any_of(running.begin(), running.end(), [](const Running& call) { return call.answered != nullptr; });
}

Pool::Pool(WorkerPool::Setup setup)
    : setup_(std::move(setup)),
      io_(*setup_.io),
      work_(asio::make_work_guard(io_)),
      ticker_(io_),
      stop_limit_(io_),
      window_(io_) {
  gpus_.sight = setup_.look_at_gpus ? gpu::Sight::not_yet : gpu::Sight::none;
  gpus_.at = Clock::now();
}

Outcome<std::shared_ptr<Pool>> Pool::create(WorkerPool::Setup setup) {
  auto pool = std::make_shared<Pool>(std::move(setup));
  const auto& limits = pool->setup_.config->node.limits;
  BOOST_OUTCOME_TRY(pool->input_,
                    ArenaSlabs::create(shm::kInputArena, "input", limits.input_arena_bytes, shm::Access::read_write));
  pool->input_->seal();
  BOOST_OUTCOME_TRY(
      pool->listener_,
      AttachListener::create(pool->io_, pool->setup_.state.workers_socket(),
                             [self = pool->weak_from_this()](shm::Fd socket, int pid, shm::AttachBody first) {
                               const auto there = self.lock();
                               if (there) there->arrived(std::move(socket), pid, std::move(first));
                             }));
  return pool;
}

/// What is known of the last process is forgotten. False: there is no room for its output; it is tried again later.
bool Pool::new_life(Worker& worker) {
  worker.awaiting = worker.reattached = false;
  worker.awaited = 0;
  worker.id = WorkerId{next_worker_++};
  ++worker.starts;
  worker.since = Clock::now();
  worker.was_ready = false;
  worker.excused = false;
  worker.outgrown = worker.oversized = worker.told_to_end = worker.leaving = false;
  worker.pid = 0;
  worker.ping = 0;
  worker.batch_left = 0;
  worker.beat = 0;
  worker.still = {};
  worker.memory = 0;
  worker.said.clear();
  if (!worker.output) {
    auto made = ArenaSlabs::create(shm::ArenaId{worker.slot}, "output-" + std::to_string(worker.slot),
                                   setup_.config->node.limits.output_arena_bytes, shm::Access::read_only);
    if (!made) {
      worker.reason = describe(made.error());
      worker.excused = passes_by_itself(made.error().code);
      start_again_later(worker);
      return false;
    }
    worker.output = std::move(made).value();
  }
  return true;
}

void Pool::start(Worker& worker) {
  if (stopping_ || worker.retired || !seated(worker) || !new_life(worker)) return;
  worker.life = Life::starting;
  worker.launching = true;
  setup_.launcher->launch(order_for(worker), [self = weak_from_this(), slot = worker.slot](Outcome<int> pid) {
    const auto pool = self.lock();
    Worker* const there = pool ? pool->by_slot(slot) : nullptr;
    if (there != nullptr) pool->launched(*there, std::move(pid));
  });
}

Launcher::Order Pool::order_for(const Worker& worker) const {
  Launcher::Order order;
  order.role = "worker-" + std::to_string(worker.place);
  order.memory_limit = worker.memory_limit;
  const std::string threads = std::to_string(worker.record->threads);
  order.argv = {setup_.shim.string(), "--model", worker.record->folder.string(), "--env", worker.env};
  if (!worker.python.empty()) order.argv.insert(order.argv.end(), {"--python", worker.python});
  order.argv.insert(order.argv.end(), {"--node", setup_.state.workers_socket().string(), "--slot",
                                       std::to_string(worker.slot), "--threads", threads, "--origin", origin_,
                                       "--reattach-ms", std::to_string(setup_.config->node.reattach.count())});
  if (!worker.devices.empty()) {
    order.argv.insert(order.argv.end(), {"--device", worker.seat.device, "--devices", worker.devices});
  }
  if (worker.seat.visible) {
    order.env.push_back("CUDA_VISIBLE_DEVICES=" + *worker.seat.visible);
    order.env.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");  // NVML's: an index means the same card in both
  }
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    order.env.push_back(std::string(name) + "=" + threads);
  }
  // An elastic group's driver listens below it, where the observer looks for it.
  order.env.push_back("GEARBOX_STATE=" + setup_.state.root.string());
  return order;
}

void Pool::launched(Worker& worker, Outcome<int> pid) {
  worker.launching = false;
  if (!pid) {
    worker.reason = "cannot be started: " + describe(pid.error());
    worker.excused = passes_by_itself(pid.error().code);
    if (stopping_) {
      worker.life = Life::gone;
      return check_stopped();
    }
    return start_again_later(worker);
  }
  worker.pid = worker.last_pid = pid.value();
  if (worker.life != Life::draining) worker.life = Life::loading;
  watch_process(worker);
  if (stopping_) {
    if (worker.alive) setup_.launcher->stop(worker.pid, setup_.timing.stop_grace);
    return check_stopped();
  }
  if (worker.retired) settle_later();
  if (worker.life == Life::draining) return worker.early.reset();
  if (worker.early && worker.alive) {
    auto [socket, hello] = std::move(*worker.early);
    worker.early.reset();
    if (worker.early_pid == worker.pid) attach(worker, std::move(socket), hello);
  }
}

void Pool::watch_process(Worker& worker) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, worker.pid, 0));
  const int reason_number = errno;
  error_code error;
  worker.alive = pidfd >= 0;
  if (pidfd >= 0) worker.process.assign(pidfd, error);
  if (pidfd < 0 || error) {
    if (pidfd >= 0) ::close(pidfd);
    worker.alive = false;
    if (pidfd >= 0 || reason_number != ESRCH) {
      worker.said = "its process cannot be watched: " + (error ? error.message() : std::strerror(reason_number));
      ::kill(worker.pid, SIGKILL);  // what cannot be watched must not run
    }
    return process_gone(worker);
  }
  worker.process.async_wait(Wait::wait_read, [self = weak_from_this(), slot = worker.slot](const error_code& failed) {
    const auto pool = self.lock();
    Worker* const there = pool ? pool->by_slot(slot) : nullptr;
    if (!failed && there != nullptr) pool->process_gone(*there);
  });
}

/// Most often its process is just ending: its pidfd says so in a moment, and then somebody can say how.
void Pool::hung_up(Worker& worker) {
  worker.leaving = true;
  if (worker.life == Life::ready) worker.life = Life::suspect;
  worker.leave.expires_after(kLeaveTime);
  worker.leave.async_wait([self = weak_from_this(), slot = worker.slot, id = worker.id](const error_code& error) {
    const auto pool = self.lock();
    Worker* const there = pool ? pool->by_slot(slot) : nullptr;
    if (error || there == nullptr || there->id != id || !there->attached()) return;
    pool->kill(*there, "it closed its attachment", Errc::worker_lost);
  });
}

/// Its pidfd has fired. Only who started it can tell how it ended; its calls wait that moment for their reason.
void Pool::process_gone(Worker& worker) {
  worker.leave.cancel();
  const bool explained = worker.life == Life::gone || !worker.said.empty() || worker.told_to_end || worker.pid == 0;
  if (explained || stopping_) return process_ended(worker);
  worker.leaving = true;
  if (worker.life == Life::ready) worker.life = Life::suspect;
  setup_.launcher->how_ended(worker.pid,
                             [self = weak_from_this(), slot = worker.slot, id = worker.id](const Launcher::End& end) {
                               const auto pool = self.lock();
                               Worker* const there = pool ? pool->by_slot(slot) : nullptr;
                               if (there == nullptr || there->id != id || there->pid == 0) return;
                               if (there->said.empty() && !end.how.empty())
                                 there->said = "its process ended: " + end.how;
                               if (end.outgrown) ++pool->ended_.outgrown;
                               pool->process_ended(*there);
                             });
}

/// Its calls end now; the process, and with it the slabs, when the pidfd says so.
void Pool::kill(Worker& worker, std::string reason, Errc for_calls) {
  worker.reason = shm::one_line(reason);
  worker.life = Life::gone;
  const std::uint64_t taken = worker.attachment ? worker.attachment->requests.taken() : 0;
  if (worker.attachment) {
    error_code ignored;  // nothing is left to do about a descriptor that does not close
    worker.attachment->socket.close(ignored);
    worker.attachment->bell.close(ignored);
    worker.attachment.reset();
  }
  if (worker.alive) {
    // In the log for good: the status tells it only until the next one is ready.
    spdlog::warn("event=worker_killed worker=worker-{} pid={} reason=\"{}\"", worker.place, worker.pid,
                 escaped(worker.reason));
    ::syscall(SYS_pidfd_send_signal, worker.process.native_handle(), SIGKILL, nullptr, 0);
  }
  end_calls(worker, Error{for_calls, "worker " + std::to_string(worker.place) + ": " + worker.reason}, taken);
  changed();
}

void Pool::process_ended(Worker& worker) {
  worker.alive = false;
  error_code ignored;  // nothing is left to do about a descriptor that does not close
  worker.process.close(ignored);
  worker.early.reset();
  const bool by_itself = worker.life != Life::gone;
  if (by_itself) kill(worker, worker.said.empty() ? "its process ended" : worker.said, Errc::worker_lost);
  worker.running.clear();  // the process is gone: what it could touch may be used again
  worker.pid = 0;
  if (stopping_) return check_stopped();
  worker.ended = Clock::now();
  if (!worker.seat.gpus.empty()) look_at_gpus();
  start_again_later(worker);
}

void Pool::start_again_later(Worker& worker) {
  const auto& timing = setup_.timing;
  worker.life = Life::gone;
  if (worker.retired) {
    settle_later();
    return changed();
  }
  if (worker.was_ready) {
    worker.bad_starts = 0;
  } else if (!worker.excused) {
    ++worker.bad_starts;
  }
  if (worker.bad_starts >= timing.start_tries) {
    worker.life = Life::failed;
    worker.seat = {};  // others may have it
    worker.failed_since = worker.folder_seen = Clock::now();
    worker.folder_stamp = stamp_of(worker.record->folder);
    return changed();
  }
  if (std::exchange(worker.start_at_once, false)) {
    start(worker);
    return changed();
  }
  const bool was_stable = worker.was_ready && Clock::now() - worker.ready_since >= timing.stable;
  worker.backoff = was_stable || worker.backoff.count() == 0 ? timing.backoff_first
                                                             : std::min(worker.backoff * 2, timing.backoff_most);
  worker.restart.expires_after(worker.backoff);
  worker.restart.async_wait([self = weak_from_this(), slot = worker.slot](const error_code& error) {
    const auto pool = self.lock();
    Worker* const there = pool ? pool->by_slot(slot) : nullptr;
    if (!error && there != nullptr) pool->start(*there);
  });
  changed();
}

void Pool::changed() {
  if (changed_) changed_();
}

Worker* Pool::by_slot(std::uint32_t slot) const {
  const auto found = std::lower_bound(workers_.begin(), workers_.end(), slot,
                                      [](const auto& worker, std::uint32_t wanted) { return worker->slot < wanted; });
  return found != workers_.end() && (*found)->slot == slot ? found->get() : nullptr;
}

const ArenaSlabs* Pool::arena(shm::ArenaId id) const {
  if (id == shm::kInputArena) return input_.get();
  if (const Worker* worker = by_slot(static_cast<std::uint32_t>(id))) return worker->output.get();
  // Its worker was removed; whoever asks holds a slab of it, which keeps it alive.
  const auto orphan =
      std::find_if(orphans_.begin(), orphans_.end(), [&](const Orphan& other) { return other.id == id; });
  return orphan == orphans_.end() ? nullptr : orphan->arena.lock().get();
}

Worker* Pool::by_id(WorkerId id) const {
  const auto found =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) { return worker->id == id; });
  return found == workers_.end() ? nullptr : found->get();
}

}  // namespace gearbox::worker_pool
