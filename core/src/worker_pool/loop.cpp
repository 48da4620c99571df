// How the node waits: for its rings and for the reactor at once. While answers are expected soon from workers on other
// CPUs it polls both; else it sleeps in the reactor, which the workers' doorbells wake.
#include <algorithm>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {
constexpr int kLooks = 16;                 // at the rings, between two looks at the clock
constexpr microseconds kReactorEvery{10};  // while spinning: what handlers posted waits no longer than this
}  // namespace

/// Until when spinning may pay: the latest over the workers that owe an answer and run elsewhere.
Instant Pool::spin_until() const {
  const std::uint32_t here = shm::this_cpu();
  Instant until{};
  for (const auto& worker : workers_) {
    if (!worker->attached() || (worker->running.empty() && worker->ping == 0)) continue;
    if (worker->attachment->answers.producer_cpu() == here) continue;
    const Instant from = worker->running.empty() ? worker->ping_sent : worker->busy_since;
    until = std::max(until, from + worker->spin.now());
  }
  return until;
}

/// Raises the flag of each ring and looks once more; wake() follows in any case.
bool Pool::may_sleep() {
  bool empty = true;
  for (const auto& worker : workers_) {
    if (worker->attached() && !worker->attachment->answers.may_sleep()) empty = false;
  }
  return empty;
}

void Pool::wake() {
  for (const auto& worker : workers_) {
    if (worker->attached()) worker->attachment->answers.wake();
  }
}

void Pool::run() {
  Instant reactor_at{};
  Instant now = Clock::now();  // looked at once per round: what arrives between two looks is stamped with the first
  while (!io_.stopped()) {
    const std::size_t answers = poll(now);
    now = Clock::now();
    const bool spin = now < spin_until();
    if ((spin || answers > 0) && now - reactor_at >= kReactorEvery) {
      reactor_at = now;
      io_.poll();
      now = Clock::now();
      continue;  // what it ran may have handed over calls
    }
    if (spin) {
      for (int i = 0; answers == 0 && i < kLooks; ++i) {
        if (poll(now) > 0) break;
        shm::cpu_relax();
      }
      continue;
    }
    if (may_sleep()) {
      io_.run_one();
      reactor_at = now = Clock::now();  // it has just looked: no poll on top of that
    }
    wake();
  }
}

}  // namespace gearbox::worker_pool
