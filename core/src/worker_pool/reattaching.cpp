// Workers that outlived their node. At start the pool asks the launcher which worker processes there are, and keeps a
// free slot for each that was started as the slot would be. It says hello within node.reattach_ms, or the slot gets a
// process of its own; those that nobody wants are ended. The same strand as all of the pool.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <random>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;
using Wait = asio::posix::stream_descriptor;

namespace {

constexpr std::size_t kCallsNamed = 8;  // in one line of the log

/// What differs between two starts of the same worker: numbers of slot and node, and where it was placed.
constexpr std::array<std::string_view, 4> kOfOneStart = {"--slot", "--origin", "--reattach-ms", "--device"};

/// Would a process with one command line do for a slot with the other?
bool started_alike(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  if (a.empty() || b.empty() || a.front() != b.front()) return false;
  const auto options_of = [](const std::vector<std::string>& argv) {
    std::map<std::string_view, std::string_view> options;
    for (std::size_t i = 1; i + 1 < argv.size(); i += 2) options[argv[i]] = argv[i + 1];
    for (const std::string_view own : kOfOneStart) options.erase(own);
    return options;
  };
  return options_of(a) == options_of(b);
}

std::uint32_t place_in(std::string_view role) {
  std::uint32_t place = 0;
  const std::string_view digits = role.substr(std::min(role.find('-') + 1, role.size()));
  std::from_chars(digits.data(), digits.data() + digits.size(), place);
  return place;
}

/// Has the other end of the socket closed, so that its process may be gone and its pid another's?
bool has_hung_up(const shm::Fd& socket) {
  pollfd peer{socket.get(), POLLRDHUP, 0};
  return ::poll(&peer, 1, 0) != 0;  // an error counts as well
}

/// For people who look for the end of a request: its device sends it again, under another number.
void tell_taken_back(const Worker& worker, const shm::WorkerHello& hello) {
  std::string calls;
  for (std::size_t i = 0; i < std::min(hello.unfinished.size(), kCallsNamed); ++i) {
    calls += (i == 0 ? " calls=" : ",") + std::to_string(hello.unfinished[i].request);
  }
  if (hello.unfinished.size() > kCallsNamed) calls += ",..";
  spdlog::info("event=worker_taken_back worker=worker-{} pid={} model={} version={} unfinished={}{}", worker.place,
               worker.pid, worker.record->name, worker.record->version, hello.unfinished.size(), calls);
}

}  // namespace

std::string random_origin() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 16; ++i) text += "0123456789abcdef"[random() % 16];
  return text;
}

std::string misfit(const shm::WorkerHello& hello, const Settings& wanted) {
  const model::Record& record = *wanted.record;
  constexpr std::string_view kShim = "worker_shim ";
  if (hello.layout_version != shm::kLayoutVersion) {
    return "its shared-memory layout is version " + std::to_string(hello.layout_version) + ", not " +
           std::to_string(shm::kLayoutVersion);
  }
  if (hello.shim.starts_with(kShim) && !hello.shim.substr(kShim.size()).starts_with(GEARBOX_VERSION " ")) {
    return "it is " + hello.shim + ", the node is " GEARBOX_VERSION;
  }
  if (hello.model != record.name || hello.version != record.version) {
    return "it holds " + hello.model + " " + hello.version + ", not " + record.name + " " + record.version;
  }
  if (hello.digest != record.digest) return "its model's files have changed since it loaded them";
  if (hello.folder != record.folder.string()) return "its model lies in another folder: " + hello.folder;
  if (hello.env != wanted.env || hello.python != wanted.python) return "its Python environment is another one";
  if (hello.devices != wanted.devices) return "its devices are '" + hello.devices + "', not '" + wanted.devices + "'";
  if (hello.threads != record.threads) return "it has " + std::to_string(hello.threads) + " threads";
  return {};
}

/// From now on workers of an earlier node may come, for node.reattach_ms.
void Pool::open_window() {
  const milliseconds within = setup_.config->node.reattach;
  if (within.count() == 0) return;
  window_open_ = true;
  window_.expires_after(within);
  window_.async_wait([self = weak_from_this()](const error_code& error) {
    const auto pool = self.lock();
    if (!error && pool) pool->close_window();
  });
  setup_.launcher->list(within, [self = weak_from_this()](Outcome<std::vector<Launcher::Running>> running) {
    const auto pool = self.lock();
    if (pool) pool->earlier_listed(std::move(running));
  });
}

/// A new slot: it waits for a process that is there already, or gets one.
void Pool::begin(Worker& worker) {
  if (!window_open_) return start(worker);
  worker.awaiting = true;
  worker.life = Life::starting;
  if (!earlier_known_) return;  // a moment
  for (const auto& earlier : earlier_) {
    if (keeper_of(*earlier) == nullptr && keep_for(worker, *earlier)) return;
  }
  start(worker);
}

/// The slot that is kept for it; null: none.
Worker* Pool::keeper_of(const Earlier& earlier) const {
  Worker* const worker = by_slot(earlier.slot);
  return worker != nullptr && worker->awaiting && !worker->retired ? worker : nullptr;
}

bool Pool::keep_for(Worker& worker, Earlier& earlier) {
  if (worker.retired || !worker.awaiting || worker.awaited != 0) return false;
  if (!started_alike(earlier.argv, order_for(worker).argv)) return false;
  worker.awaited = earlier.pid;
  worker.reason = "waits for the worker of the earlier node (process " + std::to_string(earlier.pid) + ")";
  earlier.slot = worker.slot;
  // Its log and its record have a name already.
  const auto other =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& each) { return each->place == earlier.place; });
  if (earlier.place != 0 && (other == workers_.end() || !(*other)->has_process())) {
    if (other != workers_.end()) (*other)->place = worker.place;
    worker.place = earlier.place;
  }
  return true;
}

void Pool::earlier_listed(Outcome<std::vector<Launcher::Running>> running) {
  // Nobody could be asked: the slots wait for whoever comes.
  if (!window_open_ || stopping_ || !running) return;
  earlier_known_ = true;
  for (Launcher::Running& process : running.value()) {
    const bool taken = std::any_of(workers_.begin(), workers_.end(),
                                   [&](const auto& worker) { return worker->alive && worker->pid == process.pid; });
    if (taken) continue;
    auto earlier = std::make_unique<Earlier>(io_);
    earlier->pid = process.pid;
    earlier->place = place_in(process.role);
    earlier->argv = std::move(process.argv);
    if (watch_earlier(*earlier)) earlier_.push_back(std::move(earlier));
  }
  // Under the same name first: of equal ones each then keeps its log.
  for (const bool by_name : {true, false}) {
    for (const auto& earlier : earlier_) {
      for (const auto& worker : workers_) {
        if (earlier->slot != 0) break;
        if (!by_name || worker->place == earlier->place) keep_for(*worker, *earlier);
      }
    }
  }
  for (const auto& earlier : earlier_) {
    if (earlier->slot == 0) setup_.launcher->stop(earlier->pid, setup_.timing.stop_grace);
  }
  for (const auto& worker : workers_) {
    if (worker->awaiting && worker->awaited == 0) start(*worker);
  }
  settle_window();
}

/// False: it has ended already.
bool Pool::watch_earlier(Earlier& earlier) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, earlier.pid, 0));
  if (pidfd < 0) return false;
  error_code error;
  earlier.process.assign(pidfd, error);
  if (error) {
    ::close(pidfd);
    return true;  // its end is then seen by the window's
  }
  earlier.process.async_wait(Wait::wait_read, [self = weak_from_this(), pid = earlier.pid](const error_code& failed) {
    const auto pool = self.lock();
    if (!failed && pool) pool->earlier_ended(pid);
  });
  return true;
}

void Pool::earlier_ended(int pid) {
  const auto found = std::find_if(earlier_.begin(), earlier_.end(), [&](const auto& each) { return each->pid == pid; });
  if (found == earlier_.end()) return;
  Worker* const keeper = keeper_of(**found);
  earlier_.erase(found);
  if (keeper != nullptr) {
    keeper->reason = "the worker of the earlier node ended";
    start(*keeper);
  }
  settle_window();
}

/// Nobody waits for anybody any more: whoever comes now is too late.
void Pool::settle_window() {
  const bool any = std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->awaiting; });
  if (window_open_ && earlier_known_ && started_ && !any) close_window();
  changed();
}

void Pool::close_window() {
  if (!std::exchange(window_open_, false)) return;
  window_.cancel();
  end_earlier();
  for (const auto& worker : workers_) {
    if (!worker->awaiting) continue;
    if (worker->awaited != 0) ++came_back_.late;
    worker->reason = "no worker of the earlier node came in time";
    worker->awaiting = false;  // a retired one is not started
    start(*worker);
  }
  changed();
}

/// Those that were not taken.
void Pool::end_earlier() {
  for (const auto& earlier : earlier_) setup_.launcher->stop(earlier->pid, setup_.timing.stop_grace);
  earlier_.clear();
}

/// A worker that another life of the node had started says hello.
void Pool::came_back(shm::Fd socket, int pid, const shm::WorkerHello& hello) {
  if (!started_) return;  // its socket closes: it dials again
  if (stopping_) return refuse(socket, "the node is stopping");
  const auto earlier =
      std::find_if(earlier_.begin(), earlier_.end(), [&](const auto& each) { return each->pid == pid; });
  Worker* const keeper = earlier == earlier_.end() ? nullptr : keeper_of(**earlier);
  const auto unfit = [&](const Worker& worker) {
    std::string reason = misfit(hello, worker);
    return reason.empty() ? misplaced(hello, worker) : reason;
  };
  std::string why = keeper == nullptr ? std::string() : unfit(*keeper);
  if (keeper != nullptr && why.empty()) return take_back(*keeper, std::move(socket), pid, hello);
  for (const auto& worker : workers_) {
    if (!worker->awaiting || worker->awaited != 0 || worker->retired) continue;
    std::string reason = unfit(*worker);
    if (reason.empty()) return take_back(*worker, std::move(socket), pid, hello);
    if (why.empty()) why = std::move(reason);
  }
  ++came_back_.refused;
  if (why.empty()) {
    why = setup_.config->node.reattach.count() == 0 ? "node.reattach_ms is 0: workers end with their node"
                                                    : "the node wants no such worker, or no longer";
  }
  refuse(socket, why);
  if (keeper == nullptr) return;
  (*earlier)->slot = 0;  // it ends by itself; should it not, the window's end ends it
  keeper->reason = "the worker of the earlier node was not taken: " + shm::one_line(why);
  start(*keeper);
  settle_window();
}

void Pool::take_back(Worker& worker, shm::Fd socket, int pid, const shm::WorkerHello& hello) {
  std::erase_if(earlier_, [&](const auto& each) { return each->pid == pid; });
  if (!new_life(worker)) {
    refuse(socket, worker.reason);
    return settle_window();
  }
  worker.reason.clear();  // it said for whom the slot waited
  worker.pid = worker.last_pid = pid;
  worker.life = Life::loading;
  watch_process(worker);
  if (worker.alive && has_hung_up(socket)) {  // then the pid may be another's by now: nothing may be done to it
    error_code ignored;                       // nothing is left to do about a descriptor that does not close
    worker.process.close(ignored);
    worker.alive = false;
    worker.pid = worker.last_pid = 0;
    worker.reason = "the worker of the earlier node ended";
    start(worker);
  } else if (worker.alive) {
    worker.reattached = true;
    tell_taken_back(worker, hello);
    keep_seat(worker, hello);
    ++came_back_.taken;
    setup_.launcher->limit(pid, worker.memory_limit);  // the earlier node may have had another
    attach(worker, std::move(socket), hello);
  }
  settle_window();
}

}  // namespace gearbox::worker_pool
