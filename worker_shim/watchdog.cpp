#include "watchdog.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "gearbox/base/clock.hpp"
#include "gearbox/shm/endpoint.hpp"

namespace gearbox::shim {
namespace {

constexpr milliseconds kBeatEvery = shm::WorkerEndpoint::kBeatEvery;

// A signal handler can reach nothing but globals; these first two are all it touches.
std::atomic<bool> g_stopping{false};
int g_wake = -1;
std::atomic<bool> g_busy{false};  // set and cleared around every call: too often for a mutex
std::atomic<bool> g_node_gone{false};

struct Limit {
  Instant at;
  ExitCode code;
  std::string why;
};

// Guarded by `mutex`; the main thread arms, the watchdog's thread looks.
struct State {
  std::mutex mutex;
  std::optional<Limit> limit;
  std::optional<Limit> stop;
  std::optional<Watchdog::Node> node;
  std::optional<Instant> gone_since;
};
State& state() {
  static State* const forever = new State;  // the thread outlives main(): never destroyed
  return *forever;
}

void wake() {
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is already under way.
  [[maybe_unused]] const ssize_t ignored = ::write(g_wake, &one, sizeof one);
}

void on_signal(int) {
  const int saved = errno;
  g_stopping.store(true, std::memory_order_relaxed);
  wake();
  errno = saved;
}

/// One line on stderr, unless nobody reads it: a full pipe must not keep this process alive.
void say(const std::string& why) {
  pollfd log{STDERR_FILENO, POLLOUT, 0};
  if (why.empty() || ::poll(&log, 1, 0) != 1) return;
  const std::string line = "worker_shim: " + why + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

void end_if_due(State& now_state, Instant now) {
  for (const std::optional<Limit>* limit : {&now_state.limit, &now_state.stop}) {
    if (!*limit || now < (*limit)->at) continue;
    say((*limit)->why);
    leave((*limit)->code);
  }
  const bool gone = now_state.node && now_state.node->gone();
  g_node_gone.store(gone, std::memory_order_relaxed);
  if (!gone) {
    now_state.gone_since.reset();
    return;
  }
  if (!now_state.gone_since) now_state.gone_since = now;
  if (now >= after(*now_state.gone_since, now_state.node->limit)) {
    say(g_busy.load(std::memory_order_relaxed) ? "the node is gone and the model's call does not come back"
                                               : "the node is gone and a thread of the model holds the GIL");
    leave(ExitCode::failed);
  }
}

void run() {
  State& shared = state();
  for (;;) {
    int wait_ms = -1;
    {
      const std::lock_guard lock(shared.mutex);
      const Instant now = Clock::now();
      if (g_stopping.load(std::memory_order_relaxed) && !shared.stop) {
        shared.stop = Limit{after(now, Watchdog::kGrace), ExitCode::told_to_stop, {}};
      }
      if (shared.node) shared.node->beat();
      end_if_due(shared, now);
      Instant next = Instant::max();
      if (shared.limit) next = std::min(next, shared.limit->at);
      if (shared.stop) next = std::min(next, shared.stop->at);
      if (shared.node) next = std::min(next, after(now, kBeatEvery));
      if (next != Instant::max()) {
        wait_ms = static_cast<int>(std::chrono::ceil<milliseconds>(next - now).count());
      }
    }
    pollfd bell{g_wake, POLLIN, 0};
    if (::poll(&bell, 1, wait_ms) > 0) {
      std::uint64_t count = 0;
      // Nothing to read is no harm: the loop looks at everything anyway.
      [[maybe_unused]] const ssize_t ignored = ::read(g_wake, &count, sizeof count);
    }
  }
}

}  // namespace

Outcome<void> Watchdog::start() {
  g_wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (g_wake < 0) return Error{Errc::io_error, std::string("eventfd: ") + std::strerror(errno)};
  struct sigaction action {};
  action.sa_handler = on_signal;  // no SA_RESTART: a wait that returns EINTR sees stopping() sooner
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  std::thread(run).detach();
  return done();
}

bool Watchdog::stopping() {
  return g_stopping.load(std::memory_order_relaxed);
}

void Watchdog::arm(milliseconds limit, ExitCode code, std::string why) {
  {
    const std::lock_guard lock(state().mutex);
    state().limit = Limit{after(Clock::now(), limit), code, std::move(why)};
  }
  wake();
}

void Watchdog::disarm() {
  const std::lock_guard lock(state().mutex);
  state().limit.reset();
}

void Watchdog::watch_node(Node node) {
  {
    const std::lock_guard lock(state().mutex);
    state().node = std::move(node);
    state().gone_since.reset();
  }
  wake();
}

void Watchdog::forget_node() {
  const std::lock_guard lock(state().mutex);
  state().node.reset();
  g_node_gone.store(false, std::memory_order_relaxed);
}

bool Watchdog::node_gone() {
  return g_node_gone.load(std::memory_order_relaxed);
}

void Watchdog::busy(bool is) {
  g_busy.store(is, std::memory_order_relaxed);
}

void leave(ExitCode code) {
  ::_exit(static_cast<int>(code));
}

}  // namespace gearbox::shim
