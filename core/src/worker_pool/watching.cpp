// The regular look at each worker: is it late, silent, stuck, or to be tried again?
#include <sys/stat.h>

#include <algorithm>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;

namespace {
constexpr milliseconds kEndSlack{1000};    // beyond the grace that a drained worker has to end
constexpr milliseconds kFolderLook{1000};  // between two looks at a failed worker's model folder
constexpr std::size_t kMostFiles = 1000;   // of a model folder that are looked at
}  // namespace

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
  if (unsettled_ > 0 || !orphans_.empty()) settle_later();
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
  if (worker.life == Life::failed && !worker.retired) return try_failed(worker, now);
  if (!worker.alive || worker.life == Life::gone) return;
  if (worker.attached()) worker.attachment->look_back();
  if (worker.life == Life::draining) return look_after_draining(worker, now);
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

/// Its calls have the time that every call has; then its end has the grace that every end has.
void Pool::look_after_draining(Worker& worker, Instant now) {
  if (worker.told_to_end) {
    if (now - worker.told_at > setup_.timing.stop_grace + kEndSlack) {
      kill(worker, "it did not end in time", Errc::worker_lost);
    }
    return;
  }
  const auto limit = 2 * milliseconds(worker.record->call_timeout_ms);
  if (!worker.running.empty() && now - worker.busy_since > limit) {
    kill(worker, "a call ran for over " + std::to_string(limit.count()) + " ms", Errc::worker_lost);
  }
}

}  // namespace gearbox::worker_pool
