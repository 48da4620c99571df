// The regular look at each worker: does it live, is it late, stuck, or to be tried again?
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
  const Clock::duration passed = ticked_at_ == Instant{} ? Clock::duration{0} : now - ticked_at_;
  ticked_at_ = now;
  // When the node itself stood still, so may the whole host have: that says nothing about the workers.
  const Clock::duration watched = std::min<Clock::duration>(passed, 2 * setup_.timing.heartbeat);
  if (passed > watched) make_good(passed - watched, now);
  for (const auto& worker : workers_) look_after(*worker, now, watched);
  if (unsettled_ > 0 || !orphans_.empty()) settle_later();
}

/// All that is measured against a limit began so much later: nobody was there to see it.
void Pool::make_good(Clock::duration lost, Instant now) {
  const auto later = [&](Instant& began) {
    if (began != Instant{}) began = std::min(now, began + lost);
  };
  for (const auto& worker : workers_) {
    for (Instant* began : {&worker->since, &worker->busy_since, &worker->ping_sent, &worker->told_at}) later(*began);
  }
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

void Pool::look_after(Worker& worker, Instant now, Clock::duration watched) {
  if (worker.life == Life::failed && !worker.retired) return try_failed(worker, now);
  if (worker.life == Life::waiting) return try_waiting(worker);
  if (!worker.alive || worker.leaving || worker.life == Life::gone) return;
  if (worker.attached()) {
    worker.attachment->look_back();
    // Relaxed: nothing is read that depends on it.
    const std::uint64_t beat = worker.attachment->beat->load(std::memory_order_relaxed);
    worker.still = std::exchange(worker.beat, beat) == beat ? worker.still + watched : Clock::duration{0};
    // One that was told to end beats no more, and has a limit of its own.
    if (worker.still >= setup_.timing.frozen && !worker.told_to_end) {
      ++ended_.frozen;
      return kill(worker, "it gave no sign of life for " + std::to_string(setup_.timing.frozen.count()) + " ms",
                  Errc::worker_lost);
    }
  }
  weigh(worker, now);
  if (worker.life == Life::gone) return;
  if (worker.record->stream) note_waits(worker, now);
  if (worker.life == Life::draining) return look_after_draining(worker, now);
  if (worker.was_ready) return look_after_ready(worker, now);
  const auto limit = milliseconds(worker.record->load_timeout_ms);
  if (now - worker.since > limit) {
    const std::string what =
        worker.attached() ? "it did not answer its first call within " : "it did not attach within ";
    kill(worker, worker.said.empty() ? what + std::to_string(limit.count()) + " ms" : worker.said, Errc::worker_lost);
  }
}

void Pool::look_after_ready(Worker& worker, Instant now) {
  const auto& timing = setup_.timing;
  const auto call_limit = milliseconds(worker.record->call_timeout_ms);
  const auto busy = worker.running.empty() ? Clock::duration{0} : now - worker.busy_since;
  const auto unanswered = worker.ping == 0 ? Clock::duration{0} : now - worker.ping_sent;
  if (busy > 2 * call_limit) {
    ++ended_.stuck;
    return kill(worker, "a call ran for over " + std::to_string(2 * call_limit.count()) + " ms", Errc::worker_lost);
  }
  // While it computes it answers no pings: the call's own limit holds then.
  const auto silent = worker.running.empty() ? unanswered : worker.takes_nothing() ? busy : Clock::duration{0};
  if (silent > timing.silent) {
    ++ended_.stuck;
    const std::string what = worker.running.empty() ? "it did not answer a ping for " : "it did not take a call for ";
    return kill(worker, what + std::to_string(timing.silent.count()) + " ms", Errc::worker_lost);
  }
  const bool quiet = worker.still >= timing.frozen / 2 || silent > std::min(timing.late, timing.silent / 2);
  const bool late = quiet || busy > call_limit;
  if (late && worker.life == Life::ready) {
    worker.life = Life::suspect;
    hand_back(worker);
    changed();
  } else if (!late && worker.life == Life::suspect) {
    worker.life = Life::ready;
    changed();
  }
  if (worker.running.empty() && worker.ping == 0) send_ping(worker, now);
}

/// Its calls have the time that every call has; then its end has the grace that every end has.
void Pool::look_after_draining(Worker& worker, Instant now) {
  if (worker.told_to_end) {
    if (now - worker.told_at > setup_.timing.stop_grace + kEndSlack) {
      kill(worker, worker.outgrown ? worker.said : "it did not end in time", Errc::worker_lost);
    }
    return;
  }
  if (worker.outgrown) {
    if (worker.owes_answers() && now - worker.outgrown_at > setup_.timing.leak_grace) {
      return kill(worker, worker.said, Errc::worker_lost);
    }
    return end(worker);
  }
  const auto limit = 2 * milliseconds(worker.record->call_timeout_ms);
  if (!worker.running.empty() && now - worker.busy_since > limit) {
    kill(worker, "a call ran for over " + std::to_string(limit.count()) + " ms", Errc::worker_lost);
  }
}

}  // namespace gearbox::worker_pool
