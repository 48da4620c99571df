// How much memory each worker uses, and what happens to one that uses more than it may.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {
/// Resident and its own: without the arenas and the files that it shares with others. 0: nobody can say, or it is gone.
std::uint64_t own_memory_of(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/statm";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  unsigned long long shared = 0;
  const int read = std::fscanf(file, "%llu %llu %llu", &size, &resident, &shared);
  std::fclose(file);
  if (read != 3 || shared > resident) return 0;
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// As memory_limit_mb counts them. Rounded up: 200.3 is more than 200.
std::string mb_text(std::uint64_t bytes) {
  constexpr std::uint64_t kMb = 1 << 20;
  return std::to_string((bytes + kMb - 1) / kMb);
}

std::string size_text(const Worker& worker) {
  return "it uses " + mb_text(worker.memory) + " MB, memory_limit_mb is " + mb_text(worker.memory_limit);
}
}  // namespace

void Pool::weigh(Worker& worker, Instant now) {
  if (now - worker.weighed < setup_.timing.memory_look) return;
  worker.weighed = now;
  worker.memory = own_memory_of(worker.pid);
  const std::uint64_t limit = worker.memory_limit;
  if (limit == 0 || worker.memory <= limit || worker.outgrown || worker.told_to_end) return;
  const bool urgent = worker.memory >= limit + limit / 4;
  const bool drains = worker.life == Life::draining;
  // Also one that drains: it may be draining because an earlier look found it a little too large, in the middle of the
  // call that it grows in.
  if (urgent || (!drains && (!worker.was_ready || !worker.attached()))) return outgrow(worker, now);
  if (worker.oversized || drains) return;
  // Workers of one model grow alike. They are replaced one after another. One that never had a place on a GPU is not
  // away: it may wait for just this worker's.
  const bool one_is_away = std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    const bool was_never_there = other->life == Life::waiting && other->starts == 0;
    return other.get() != &worker && !other->retired && other->life != Life::ready && other->life != Life::failed &&
           !was_never_there && is_same_model(*other->record, *worker.record);
  });
  if (!one_is_away) relieve(worker);
}

/// Another one is started beside it and takes over when it is ready; then this one ends when its calls have ended.
void Pool::relieve(Worker& worker) {
  ++ended_.outgrown;
  worker.reason = size_text(worker);
  worker.oversized = true;
  settle_later();
}

/// It gets no more calls at once, and has a short time for the one it has begun; one that is not even ready has none.
void Pool::outgrow(Worker& worker, Instant now) {
  if (!worker.oversized) ++ended_.outgrown;
  worker.said = size_text(worker);
  if (!worker.was_ready || !worker.attached()) return kill(worker, worker.said, Errc::worker_lost);
  worker.reason = worker.said;
  worker.outgrown = true;
  worker.outgrown_at = now;
  drain(worker);
  hand_back(worker);
  changed();
}

}  // namespace gearbox::worker_pool
