// How workers come and go. A worker is gone only when its pidfd says so; until then its slabs are not reused.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <boost/asio/post.hpp>

#include "gearbox/shm/call_block.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;
using Wait = asio::posix::stream_descriptor;

namespace {
constexpr milliseconds kStopSlack{1000};   // beyond the grace that workers have to end by themselves
constexpr milliseconds kFolderLook{1000};  // between two looks at a failed worker's model folder
constexpr std::size_t kMostFiles = 1000;   // of a model folder that are looked at

/// Is it this host that lacks something, or stops, so that the model is not to blame?
bool passes_by_itself(Errc code) {
  return code == Errc::no_space || code == Errc::overloaded || code == Errc::shutting_down || code == Errc::cancelled;
}

/// Another number when a file of the folder was written, added or removed. Without reading them.
std::size_t stamp_of(const std::filesystem::path& folder) {
  std::size_t stamp = 0;
  std::size_t seen = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end && seen < kMostFiles;
       at.increment(failed), ++seen) {
    struct stat now {};
    if (::stat(at->path().c_str(), &now) != 0) continue;  // gone again: the next look sees that
    const std::string text = at->path().filename().string() + '/' + std::to_string(now.st_mtim.tv_sec) + '.' +
                             std::to_string(now.st_mtim.tv_nsec) + '/' + std::to_string(now.st_size);
    stamp += std::hash<std::string>{}(text);  // a sum: the order of a folder means nothing
  }
  return stamp;
}
}  // namespace

std::string_view name_of(Life life) {
  switch (life) {
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
    case Life::gone:
      return "gone";
    case Life::failed:
      return "failed";
  }
  return "unknown";
}

std::uint32_t Worker::capacity() const {
  // The answers of all calls, and a pong, fit into the ring at once.
  return std::min(record->prefetch + 1, shm::kRingCapacity / 2);
}

Pool::Pool(WorkerPool::Setup setup)
    : setup_(std::move(setup)), io_(*setup_.io), work_(asio::make_work_guard(io_)), ticker_(io_), stop_limit_(io_) {}

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

void Pool::start_workers() {
  const config::Config& config = *setup_.config;
  for (const config::WorkerConfig& wanted : config.workers) {
    for (const model::Record& record : config.models) {
      if (record.name != wanted.model || (!wanted.version.empty() && record.version != wanted.version)) continue;
      for (std::uint32_t i = 0; i < wanted.count; ++i) {
        auto worker = std::make_unique<Worker>(io_);
        worker->slot = static_cast<std::uint32_t>(workers_.size()) + 1;
        worker->record = &record;
        worker->env = wanted.env;
        worker->devices = wanted.devices;
        const auto env = config.envs.find(wanted.env);
        if (env != config.envs.end() && !env->second.python.empty()) {
          worker->python = (setup_.state.envs() / env->second.python).string();  // an absolute path stays as it is
        }
        worker->spin = shm::SpinBudget(microseconds(config.node.spin_us));
        workers_.push_back(std::move(worker));
      }
    }
  }
  for (const auto& worker : workers_) start(*worker);
  tick_later();
}

void Pool::start(Worker& worker) {
  if (stopping_) return;
  worker.id = WorkerId{next_worker_++};
  ++worker.starts;
  worker.since = Clock::now();
  worker.was_ready = false;
  worker.excused = false;
  worker.pid = 0;
  worker.ping = 0;
  worker.said.clear();
  if (!worker.output) {
    auto made = ArenaSlabs::create(shm::ArenaId{worker.slot}, "output-" + std::to_string(worker.slot),
                                   setup_.config->node.limits.output_arena_bytes, shm::Access::read_only);
    if (!made) {
      worker.reason = describe(made.error());
      worker.excused = passes_by_itself(made.error().code);
      return start_again_later(worker);
    }
    worker.output = std::move(made).value();
  }
  worker.life = Life::starting;
  worker.launching = true;
  setup_.launcher->launch(order_for(worker), [self = weak_from_this(), slot = worker.slot](Outcome<int> pid) {
    const auto pool = self.lock();
    if (pool) pool->launched(*pool->by_slot(slot), std::move(pid));
  });
}

Launcher::Order Pool::order_for(const Worker& worker) const {
  Launcher::Order order;
  order.role = "worker-" + std::to_string(worker.slot);
  const std::string threads = std::to_string(worker.record->threads);
  order.argv = {setup_.shim.string(), "--model", worker.record->folder.string(), "--env", worker.env};
  if (!worker.python.empty()) order.argv.insert(order.argv.end(), {"--python", worker.python});
  order.argv.insert(order.argv.end(), {"--node", setup_.state.workers_socket().string(), "--slot",
                                       std::to_string(worker.slot), "--threads", threads});
  if (!worker.devices.empty()) order.argv.insert(order.argv.end(), {"--device", worker.devices});
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    order.env.push_back(std::string(name) + "=" + threads);
  }
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
  worker.life = Life::loading;
  watch_process(worker);
  if (stopping_) {
    if (worker.alive) setup_.launcher->stop(worker.pid, setup_.timing.stop_grace);
    return check_stopped();
  }
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
      worker.reason = "its process cannot be watched: " + (error ? error.message() : std::strerror(reason_number));
      ::kill(worker.pid, SIGKILL);  // what cannot be watched must not run
    }
    return process_ended(worker);
  }
  worker.process.async_wait(Wait::wait_read, [self = weak_from_this(), slot = worker.slot](const error_code& failed) {
    const auto pool = self.lock();
    if (!failed && pool) pool->process_ended(*pool->by_slot(slot));
  });
}

void Pool::refuse(const shm::Fd& socket, std::string reason) const {
  // Best effort: a peer that cannot be told finds its socket closed.
  [[maybe_unused]] const auto sent =
      shm::send_message(socket.get(), shm::AttachBody(shm::ExitNotice{std::move(reason)}), {});
}

void Pool::arrived(shm::Fd socket, int pid, shm::AttachBody first) {
  const auto* hello = std::get_if<shm::WorkerHello>(&first);
  const auto* failed = std::get_if<shm::WorkerFailed>(&first);
  Worker* worker = by_slot(hello != nullptr ? hello->slot : failed != nullptr ? failed->slot : 0);
  if (failed != nullptr) {
    // The process ends by itself, or at the load limit; its end may even have been noticed before its words.
    if (worker == nullptr || worker->was_ready || (!worker->launching && worker->last_pid != pid)) return;
    worker->said = worker->reason = shm::one_line(failed->text);
    return changed();
  }
  const bool expected = worker != nullptr && !stopping_ && !worker->attached() &&
                        (worker->launching || (worker->alive && worker->life == Life::loading && worker->pid == pid));
  if (!expected) return refuse(socket, "no worker with this process id is awaited here");
  if (hello == nullptr) return refuse(socket, "the first message is no hello");
  if (worker->launching) {
    worker->early.emplace(std::move(socket), *hello);
    worker->early_pid = pid;
    return;
  }
  attach(*worker, std::move(socket), *hello);
}

void Pool::attach(Worker& worker, shm::Fd socket, const shm::WorkerHello& hello) {
  const model::Record& record = *worker.record;
  if (hello.layout_version != shm::kLayoutVersion) {
    worker.said = worker.reason = "its shared-memory layout is version " + std::to_string(hello.layout_version);
    return refuse(socket, worker.reason);
  }
  if (hello.model != record.name || hello.version != record.version ||
      (!hello.digest.empty() && !record.digest.empty() && hello.digest != record.digest)) {
    worker.said = worker.reason =
        "it loaded another model or another content than the node knows; a node reads its models when it starts";
    return refuse(socket, worker.reason);
  }
  auto attachment = Attachment::accept(io_, std::move(socket), *input_, *worker.output, setup_.config->node.spin_us);
  if (!attachment) {
    worker.excused = passes_by_itself(attachment.error().code);
    return kill(worker, describe(attachment.error()), Errc::worker_lost);
  }
  worker.attachment = std::move(attachment).value();
  worker.life = Life::probing;
  watch_socket(worker);
  probe(worker);
}

/// A worker speaks on its socket only to say that it cannot go on; an end of the socket means that it leaves.
void Pool::watch_socket(Worker& worker) {
  worker.attachment->socket.async_wait(
      Wait::wait_read, [self = weak_from_this(), slot = worker.slot,
                        watched = std::weak_ptr(worker.attachment)](const error_code& error) {
        const auto pool = self.lock();
        const auto attachment = watched.lock();
        if (error || !pool || !attachment) return;
        Worker& there = *pool->by_slot(slot);
        if (there.attachment != attachment) return;
        auto message = shm::receive_message(attachment->socket.native_handle());
        if (!message && message.error().code == Errc::short_frame) return pool->watch_socket(there);
        const auto* failed = message ? std::get_if<shm::WorkerFailed>(&message.value().body) : nullptr;
        if (failed != nullptr) there.said = shm::one_line(failed->text);
        pool->kill(there, failed != nullptr ? failed->text : "it closed its attachment", Errc::worker_lost);
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
    ::syscall(SYS_pidfd_send_signal, worker.process.native_handle(), SIGKILL, nullptr, 0);
  }
  end_calls(worker, Error{for_calls, "worker " + std::to_string(worker.slot) + ": " + worker.reason}, taken);
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
  start_again_later(worker);
}

void Pool::start_again_later(Worker& worker) {
  const auto& timing = setup_.timing;
  worker.life = Life::gone;
  if (worker.was_ready) {
    worker.bad_starts = 0;
  } else if (!worker.excused) {
    ++worker.bad_starts;
  }
  if (worker.bad_starts >= timing.start_tries) {
    worker.life = Life::failed;
    worker.failed_since = worker.folder_seen = Clock::now();
    worker.folder_stamp = stamp_of(worker.record->folder);
    return changed();
  }
  const bool was_stable = worker.was_ready && Clock::now() - worker.ready_since >= timing.stable;
  worker.backoff = was_stable || worker.backoff.count() == 0 ? timing.backoff_first
                                                             : std::min(worker.backoff * 2, timing.backoff_most);
  worker.restart.expires_after(worker.backoff);
  worker.restart.async_wait([self = weak_from_this(), slot = worker.slot](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool) pool->start(*pool->by_slot(slot));
  });
  changed();
}

void Pool::tick_later() {
  ticker_.expires_after(setup_.timing.heartbeat);
  ticker_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (error || !pool || pool->stopping_) return;
    pool->tick();
    pool->tick_later();
  });
}

void Pool::tick() {
  const Instant now = Clock::now();
  for (const auto& worker : workers_) look_after(*worker, now);
}

/// One more start of a slot that was given up: after a while, or when somebody has changed its model's folder.
void Pool::try_failed(Worker& worker, Instant now) {
  bool again = now - worker.failed_since >= setup_.timing.retry_failed;
  if (!again && now - worker.folder_seen >= std::min(kFolderLook, setup_.timing.heartbeat * 20)) {
    worker.folder_seen = now;
    again = stamp_of(worker.record->folder) != worker.folder_stamp;
  }
  if (!again) return;
  worker.bad_starts = setup_.timing.start_tries - 1;
  start(worker);
  changed();
}

void Pool::look_after(Worker& worker, Instant now) {
  if (worker.life == Life::failed) return try_failed(worker, now);
  if (!worker.alive || worker.life == Life::gone) return;
  const auto limit = milliseconds(worker.record->load_timeout_ms);
  if (!worker.was_ready) {
    if (now - worker.since > limit) {
      const std::string what =
          worker.attached() ? "it did not answer its first call within " : "it did not attach within ";
      kill(worker, worker.said.empty() ? what + std::to_string(limit.count()) + " ms" : worker.said, Errc::worker_lost);
    }
    return;
  }
  const auto call_limit = milliseconds(worker.record->call_timeout_ms);
  const auto busy = worker.running.empty() ? Clock::duration{0} : now - worker.busy_since;
  const auto unanswered = worker.ping == 0 ? Clock::duration{0} : now - worker.ping_sent;
  if (busy > 2 * call_limit) {
    return kill(worker, "a call ran for over " + std::to_string(2 * call_limit.count()) + " ms", Errc::worker_lost);
  }
  // While it computes it answers no pings: the call's own limit holds then.
  if (worker.running.empty() && unanswered > setup_.timing.silent) {
    return kill(worker, "it did not answer a ping for " + std::to_string(setup_.timing.silent.count()) + " ms",
                Errc::worker_lost);
  }
  const bool late = busy > call_limit || (worker.running.empty() && unanswered > setup_.timing.silent / 2);
  if (late && worker.life == Life::ready) {
    worker.life = Life::suspect;
    changed();
  }
  if (worker.running.empty() && worker.ping == 0) send_ping(worker, now);
}

void Pool::stop(std::function<void()> stopped) {
  stopped_ = std::move(stopped);
  if (stopping_) return check_stopped();
  stopping_ = true;
  listener_.reset();
  ticker_.cancel();
  for (const auto& worker : workers_) {
    worker->restart.cancel();
    end_calls(*worker, Error{Errc::worker_lost, "the node is stopping"}, 0);
    if (worker->attachment) {
      // Best effort: the signal says the same.
      [[maybe_unused]] const auto told = shm::send_message(
          worker->attachment->socket.native_handle(), shm::AttachBody(shm::ExitNotice{"the node is stopping"}), {});
    }
    if (worker->alive) setup_.launcher->stop(worker->pid, setup_.timing.stop_grace);
  }
  setup_.launcher->cancel_all();
  stop_limit_.expires_after(setup_.timing.stop_grace + kStopSlack);
  stop_limit_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool) pool->stop_late();
  });
  asio::post(io_, [self = weak_from_this()] {
    const auto pool = self.lock();
    if (pool) pool->check_stopped();
  });
}

/// The grace is over: what still runs is killed, and no launch is waited for any longer.
void Pool::stop_late() {
  for (const auto& worker : workers_) {
    worker->launching = false;
    if (worker->alive) kill(*worker, "it did not stop in time", Errc::worker_lost);
  }
  check_stopped();
  if (!stopped_) return;
  // A process that the kernel does not let go of does not hold the node either.
  stop_limit_.expires_after(kStopSlack);
  stop_limit_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool && pool->stopped_) std::exchange(pool->stopped_, nullptr)();
  });
}

void Pool::check_stopped() {
  const bool any = std::any_of(workers_.begin(), workers_.end(),
                               [](const auto& worker) { return worker->alive || worker->launching; });
  if (any || !stopped_) return;
  stop_limit_.cancel();
  const auto stopped = std::exchange(stopped_, nullptr);
  stopped();
}

void Pool::close() {
  stopping_ = true;
  changed_ = nullptr;
  listener_.reset();
  ticker_.cancel();
  stop_limit_.cancel();
  for (const auto& worker : workers_) {
    worker->restart.cancel();
    error_code ignored;  // nothing is left to do about a descriptor that does not close
    worker->process.close(ignored);
    if (worker->attachment) {
      worker->attachment->socket.close(ignored);
      worker->attachment->bell.close(ignored);
      worker->attachment.reset();
    }
  }
  work_.reset();
}

void Pool::changed() {
  if (changed_) changed_();
}

Worker* Pool::by_slot(std::uint32_t slot) {
  return slot >= 1 && slot <= workers_.size() ? workers_[slot - 1].get() : nullptr;
}

Worker* Pool::by_id(WorkerId id) {
  const auto found =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) { return worker->id == id; });
  return found == workers_.end() ? nullptr : found->get();
}

}  // namespace gearbox::worker_pool
