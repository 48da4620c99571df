#include "dispatch/noting.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

namespace {
explain::Standing standing_of(std::string_view state) {
  if (state == "suspect") return explain::Standing::suspect;
  if (state == "draining") return explain::Standing::draining;
  if (state == "failed") return explain::Standing::failed;
  if (state == "gone") return explain::Standing::gone;
  return explain::Standing::not_ready;
}

explain::Seen seen_of(const worker_pool::WorkerView& worker, explain::Standing standing) {
  constexpr microseconds::rep kMost = std::numeric_limits<std::uint32_t>::max();
  explain::Seen seen;
  seen.worker = worker.id;
  seen.slot = worker.place;
  seen.pid = worker.pid;
  seen.running = runs(worker);
  seen.queued = worker.running - seen.running;
  seen.capacity = worker.capacity;
  seen.p95_us = static_cast<std::uint32_t>(std::clamp<microseconds::rep>(worker.step_p95.count(), 0, kMost));
  seen.standing = standing;
  return seen;
}
}  // namespace

std::uint32_t runs(const worker_pool::WorkerView& worker) {
  return std::min(worker.running, worker.max_batch);
}

void add_seen(explain::Pick& pick, const worker_pool::WorkerView& worker, explain::Standing standing) {
  const bool candidate = standing == explain::Standing::candidate;
  const auto alike = std::count_if(pick.seen.begin(), pick.seen.end(), [&](const explain::Seen& seen) {
    return (seen.standing == explain::Standing::candidate) == candidate;
  });
  if (static_cast<std::size_t>(alike) < explain::kWorkers) {
    pick.seen.push_back(seen_of(worker, standing));
  } else {
    ++pick.left_out;
  }
}

void keep_chosen(explain::Pick& pick, const std::vector<worker_pool::WorkerView>& ready) {
  const auto is_chosen = [&](const auto& seen) { return seen.worker == *pick.chosen; };
  if (std::any_of(pick.seen.begin(), pick.seen.end(), is_chosen)) return;
  const auto last = std::find_if(pick.seen.rbegin(), pick.seen.rend(), [](const explain::Seen& seen) {
    return seen.standing == explain::Standing::candidate;
  });
  for (const worker_pool::WorkerView& worker : ready) {
    if (worker.id == *pick.chosen && last != pick.seen.rend()) *last = seen_of(worker, explain::Standing::candidate);
  }
}

void note_end(explain::Call& call, const worker_pool::CallAnswer& answer, Instant now) {
  call.input_tokens = answer.input_tokens;
  if (call.picks.empty()) return;
  explain::Pick& pick = call.picks.back();
  pick.ended = now;
  if (answer.outputs) return;
  pick.error = answer.outputs.error().code;
  pick.begun = answer.begun;
  pick.reason = explain::shortened(answer.outputs.error().detail);
}

void Dispatcher::note(Waiting& waiting, explain::Pick pick) {
  pick.attempt = waiting.explained.attempts;
  if (pick.chosen) ++waiting.explained.attempts;
  pick.others = others(*waiting.job.record);
  waiting.explained.submitted = waiting.since;
  waiting.explained.add(std::move(pick));
}

/// Those that no pick for `record` can choose, whatever they have to do.
explain::OthersPtr Dispatcher::others(const model::Record& record) {
  const std::uint64_t generation = pool_.generation();
  OthersAt& known = others_[key_of(record)];
  if (known.others && known.generation == generation) return known.others;
  auto found = std::make_shared<explain::Others>();
  for (const worker_pool::WorkerView& worker : pool_.workers()) {
    if (worker.model != record.name) continue;
    const bool same = worker.version == record.version && worker.digest == record.digest;
    if (same && worker.state == "ready") continue;
    if (found->workers.size() == explain::kWorkers) {
      ++found->left_out;
      continue;
    }
    explain::Others::Worker other;
    other.seen = seen_of(worker, same ? standing_of(worker.state) : explain::Standing::other_model);
    if (worker.version != record.version) other.version = worker.version;
    found->workers.push_back(std::move(other));
  }
  known = {generation, std::move(found)};
  return known.others;
}

/// What was noted goes with the result.
void Dispatcher::tell(Waiting& waiting, JobResult& result, Instant now) {
  if (!waiting.job.explained) return;
  explain::Call& call = result.explained;
  call = std::move(waiting.explained);
  call.submitted = waiting.since;
  call.ended = now;
  call.run = result.run;
  call.parts = waiting.parts;
  call.first_part = waiting.first_part;
  call.batch = result.batch;
  if (!result.outputs) call.error = result.outputs.error().code;
}

std::optional<explain::Call> Dispatcher::explained(JobId id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.job.explained) return std::nullopt;
  explain::Call call = found->second.explained;
  call.submitted = found->second.since;
  call.parts = found->second.parts;
  call.first_part = found->second.first_part;
  return call;
}

}  // namespace gearbox::dispatch
