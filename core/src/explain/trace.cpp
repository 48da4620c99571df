#include "explain/trace.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::explain {

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::candidate:
      return "candidate";
    case Standing::full:
      return "full";
    case Standing::alone:
      return "runs alone a call that a worker died of";
    case Standing::not_idle:
      return "not idle, and the call must run alone";
    case Standing::refused:
      return "could not take the call";
    case Standing::not_ready:
      return "not ready";
    case Standing::suspect:
      return "does not answer in time";
    case Standing::draining:
      return "draining";
    case Standing::failed:
      return "failed";
    case Standing::gone:
      return "gone";
    case Standing::other_model:
      return "other version or content";
    case Standing::kept:
      return "keeps its places for another pool";
  }
  return "";
}

std::string_view name_of(VersionNote note) {
  switch (note) {
    case VersionNote::newest:
      return "the newest";
    case VersionNote::exact:
      return "the task names this version";
    case VersionNote::range:
      return "the newest that the task's range admits";
    case VersionNote::coming:
      return "the newest had no ready worker yet";
    case VersionNote::none:
      return "nobody served the newest";
    case VersionNote::stands_in:
      return "of another configuration than the request's, with the same inputs and outputs";
    case VersionNote::content:
      return "the model's folder was edited: the same version with other content";
  }
  return "";
}

std::string shortened(std::string_view reason) {
  return std::string(reason.substr(0, kReasonBytes));
}

Pick& Call::add(Pick pick) {
  if (picks.size() < kPicks) {
    picks.push_back(std::move(pick));
  } else {
    ++picks_left_out;
    picks.back() = std::move(pick);
  }
  return picks.back();
}

void Call::follow(Call earlier) {
  std::vector<Pick> own = std::exchange(picks, std::move(earlier.picks));
  submitted = earlier.submitted == Instant{} ? submitted : earlier.submitted;
  picks_left_out += earlier.picks_left_out;
  run += earlier.run;
  for (Pick& pick : own) {
    pick.attempt += earlier.attempts;
    add(std::move(pick));
  }
  attempts += earlier.attempts;
}

microseconds Call::waited_at_node(Instant now) const {
  if (picks.empty() || !picks.back().chosen) return elapsed(submitted, ended == Instant{} ? now : ended);
  return elapsed(submitted, picks.back().at);
}

microseconds Call::waited_in_worker() const {
  if (picks.empty() || !picks.back().chosen || ended == Instant{}) return microseconds{0};
  if (parts > 0) return std::max(elapsed(picks.back().at, first_part), microseconds{0});  // then it was under way
  const auto ran = std::chrono::duration_cast<microseconds>(run);
  return std::max(elapsed(picks.back().at, ended) - ran, microseconds{0});
}

microseconds Call::been_there(Instant now) const {
  const bool with_worker = ended == Instant{} && !picks.empty() && picks.back().chosen && picks.back().error == Errc{};
  return with_worker ? std::max(elapsed(picks.back().at, now), microseconds{0}) : microseconds{0};
}

std::size_t Call::bytes() const {
  std::size_t sum = sizeof(Call) + picks.capacity() * sizeof(Pick) + version.capacity();
  for (const Pick& pick : picks) sum += pick.seen.capacity() * sizeof(Seen) + pick.reason.capacity();
  return sum;
}

void Step::add(Call call, std::size_t& kept_bytes) {
  ++answered;
  if (call.error != Errc{}) ++failed;
  if (call.attempts > 1) ++retried;
  const microseconds whole = elapsed(call.submitted, call.ended);
  const auto ran = std::chrono::duration_cast<microseconds>(call.run);
  longest_queue = std::max(longest_queue, whole - std::min(whole, ran));
  longest_run = std::max(longest_run, ran);
  sum_run += ran;
  const bool spare = kept_bytes + call.bytes() <= kTraceBytes;
  if (first.empty() || (first.size() < kFirstCalls && spare)) {
    kept_bytes += call.bytes();
    first.push_back(std::move(call));
    return;
  }
  // What failed goes before what was slow: it is what people look for.
  const auto worse = [](const Call& a, const Call& b) {
    return std::pair(a.error != Errc{}, elapsed(a.submitted, a.ended)) >
           std::pair(b.error != Errc{}, elapsed(b.submitted, b.ended));
  };
  if (slowest.size() < kSlowestCalls) {
    if (!spare) return;
  } else {
    if (!worse(call, slowest.back())) return;
    kept_bytes -= std::min(kept_bytes, slowest.back().bytes());
    slowest.pop_back();
  }
  kept_bytes += call.bytes();
  slowest.insert(std::upper_bound(slowest.begin(), slowest.end(), call, worse), std::move(call));
}

void Step::add_open(Call call, std::size_t& kept_bytes) {
  ++open;
  const Pick* const last = call.picks.empty() ? nullptr : &call.picks.back();
  if (last != nullptr && last->chosen && last->error == Errc{} && (open_since == Instant{} || last->at < open_since)) {
    open_since = last->at;
  }
  if (still_open.size() >= kOpenCalls || kept_bytes + call.bytes() > kTraceBytes) return;
  kept_bytes += call.bytes();
  still_open.push_back(std::move(call));
}

std::size_t Trace::bytes() const {
  std::size_t sum = sizeof(Trace) + task.capacity() + user.capacity() + pool.capacity() + reason.capacity();
  for (const Step& step : steps) {
    sum += sizeof(Step) + step.name.capacity() + step.model.capacity() + step.asked.capacity();
    sum += step.version.capacity() + step.newest.capacity();
    for (const auto* calls : {&step.first, &step.slowest, &step.still_open}) {
      for (const Call& call : *calls) sum += call.bytes();
    }
  }
  return sum;
}

}  // namespace gearbox::explain
