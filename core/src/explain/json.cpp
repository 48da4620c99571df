#include "explain/json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <string>

#include "gearbox/base/text.hpp"

namespace gearbox::explain {

namespace json = boost::json;

namespace {

// Of steps in one answer; a frame may have 64 KiB of JSON. One step has room for a call's worst many times.
constexpr std::size_t kMaxPieceBytes = 56 * 1024;

/// JSON is UTF-8; an error's text may be anything, and cut anywhere.
std::string text_of(const std::string& text) {
  return is_utf8(text) ? text : escaped(text);
}

/// {}: it has not come to that.
json::value time_between(Instant from, Instant to) {
  if (from == Instant{} || to == Instant{}) return nullptr;
  return elapsed(from, to).count();
}

json::object seen_json(const Seen& seen) {
  return {{"worker", static_cast<std::uint32_t>(seen.worker)},
          {"slot", seen.slot},
          {"pid", seen.pid},
          {"queued", seen.queued},
          {"running", seen.running},
          {"capacity", seen.capacity},
          {"p95_us", seen.p95_us}};
}

json::object pick_json(const Pick& pick, Instant arrived) {
  json::array candidates;
  json::array excluded;
  json::object chosen;
  for (const Seen& seen : pick.seen) {
    json::object each = seen_json(seen);
    if (pick.chosen && seen.worker == *pick.chosen && seen.standing == Standing::candidate) {
      chosen = {{"worker", each["worker"]}, {"slot", seen.slot}, {"pid", seen.pid}};
    }
    if (seen.standing != Standing::candidate) each["why"] = name_of(seen.standing);
    (seen.standing == Standing::candidate ? candidates : excluded).push_back(std::move(each));
  }
  if (pick.others) {
    for (const Others::Worker& other : pick.others->workers) {
      std::string why(name_of(other.seen.standing));
      if (!other.version.empty()) why = "runs version " + other.version;
      excluded.push_back({{"worker", static_cast<std::uint32_t>(other.seen.worker)},
                          {"slot", other.seen.slot},
                          {"pid", other.seen.pid},
                          {"why", std::move(why)}});
    }
  }
  json::object out{{"at_us", elapsed(arrived, pick.at).count()}, {"attempt", pick.attempt + 1}};
  if (pick.chooser) {
    out["balancer"] = json::object{{"name", pick.chooser->name},
                                   {"version", pick.chooser->version},
                                   {"checksum", pick.chooser->checksum.substr(0, 12)}};
  }
  out["chosen"] = pick.chosen ? json::value(std::move(chosen)) : json::value(nullptr);
  if (!pick.chosen)
    out["why"] = pick.at_limit ? "the balancer says that each is at its queue limit" : "nobody had a place";
  if (pick.stood_in) out["stood_in"] = true;
  out["candidates"] = std::move(candidates);
  out["excluded"] = std::move(excluded);
  if (const auto more = pick.left_out + (pick.others ? pick.others->left_out : 0); more > 0) out["left_out"] = more;
  if (pick.error != Errc{}) {
    out["failed"] = json::object{{"code", name_of(pick.error)},
                                 {"reason", text_of(pick.reason)},
                                 {"begun", pick.begun},
                                 {"after_us", elapsed(pick.at, pick.ended).count()}};
  }
  return out;
}

json::object call_json(const Call& call, const Step& step, std::string_view kept, Instant arrived, Instant now) {
  const bool over = call.ended != Instant{};
  const bool handed_over = !call.picks.empty() && call.picks.back().chosen && call.picks.back().error == Errc{};
  // Of an open call, in a request that is over, that is what it was when the request ended.
  std::string_view state = handed_over ? "running" : "waiting";
  if (over) state = call.error == Errc{} ? "done" : "failed";
  json::object out{{"kept", kept}, {"state", state}};
  if (step.scattered) out["item"] = call.item;
  if (call.error != Errc{}) out["error"] = name_of(call.error);
  out["version"] = call.version.empty() ? step.version : call.version;
  out["queue_us"] = call.waited_at_node(now).count();
  if (!over && handed_over) {
    out["there_us"] = call.been_there(now).count();  // how much of it was waiting, only its answer would have told
  } else {
    out["worker_queue_us"] = call.waited_in_worker().count();
    out["run_us"] = std::chrono::duration_cast<microseconds>(call.run).count();
    out["batch"] = call.batch;
  }
  out["attempts"] = call.attempts;
  if (call.input_tokens > 0) out["input_tokens"] = call.input_tokens;
  if (call.parts > 0) {
    out["parts"] = call.parts;
    out["first_part_us"] = elapsed(call.submitted, call.first_part).count();
  }
  json::array picks;
  for (const Pick& pick : call.picks) picks.push_back(pick_json(pick, arrived));
  out["picks"] = std::move(picks);
  if (call.picks_left_out > 0) out["picks_left_out"] = call.picks_left_out;
  return out;
}

/// `most`: calls shown.
json::object step_json(const Step& step, const Trace& trace, std::size_t most, Instant now) {
  json::object out{{"step", step.name}, {"model", step.model}, {"asked", step.asked}};
  if (step.started == Instant{}) {
    out["state"] = "not begun";
    return out;
  }
  const bool done = step.ended != Instant{};
  out["state"] = done ? "done" : step.failed > 0 ? "failed" : trace.over ? "cut off" : "running";
  out["version"] = step.version;
  out["version_note"] = name_of(step.note);
  if (!step.newest.empty()) out["newest"] = step.newest;
  out["at_us"] = elapsed(trace.arrived, step.started).count();
  out["took_us"] = elapsed(step.started, done ? step.ended : trace.over ? trace.ready : now).count();
  out["longest_queue_us"] = step.longest_queue.count();
  out["longest_run_us"] = step.longest_run.count();
  out["sum_run_us"] = step.sum_run.count();
  if (step.open_since != Instant{}) {
    out["longest_open_us"] = elapsed(step.open_since, trace.over ? trace.ready : now).count();
  }
  json::array calls;
  const auto show = [&](const std::vector<Call>& kept, std::string_view as) {
    for (const Call& call : kept) {
      // What was still open when the request ended has not waited since.
      const Instant until = trace.over ? trace.ready : now;
      if (calls.size() < most) calls.push_back(call_json(call, step, as, trace.arrived, until));
    }
  };
  show(step.first, "first");
  show(step.slowest, "slowest");
  show(step.still_open, "open");
  out["calls"] = json::object{{"made", step.calls},    {"answered", step.answered},
                              {"failed", step.failed}, {"retried", step.retried},
                              {"open", step.open},     {"not_shown", step.answered + step.open - calls.size()}};
  out["kept"] = std::move(calls);
  return out;
}

std::string_view state_of(const Trace& trace) {
  if (trace.error != Errc{}) return "failed";
  if (trace.over) return "done";
  if (trace.verified != Instant{}) return "running";
  return trace.admitted == Instant{} ? "waits for memory or a place" : "uploading";
}

}  // namespace

json::object to_json(const Trace& trace, std::uint64_t from, Instant now) {
  json::object out{{"request", to_text(trace.key.id)},
                   {"device", to_text(trace.key.device)},
                   {"user", text_of(trace.user)},
                   {"task", text_of(trace.task)},
                   {"tenant", trace.tenant},
                   {"priority", trace.priority},
                   {"config", trace.config ? *trace.config : std::string()},
                   {"announced_unix_ms", trace.announced_unix_ms},
                   {"state", state_of(trace)}};
  if (!trace.pool.empty()) out["pool"] = trace.pool;
  if (trace.placement != 0) out["placement"] = trace.placement;
  if (trace.error != Errc{}) {
    out["error"] = json::object{{"code", name_of(trace.error)}, {"detail", text_of(trace.reason)}};
  }
  out["times"] = json::object{{"wait_us", time_between(trace.arrived, trace.admitted)},
                              {"upload_us", time_between(trace.admitted, trace.verified)},
                              {"steps_us", time_between(trace.verified, trace.ready)},
                              {"reply_us", time_between(trace.ready, trace.sent)},
                              {"acknowledged_us", time_between(trace.sent, trace.acknowledged)},
                              {"total_us", time_between(trace.arrived, trace.over ? trace.ready : now)}};
  out["bytes"] =
      json::object{{"uploaded", trace.wire_bytes}, {"plain", trace.plain_bytes}, {"result", trace.result_bytes}};
  json::array steps;
  std::size_t bytes = 0;
  std::size_t at = std::min<std::uint64_t>(from, trace.steps.size());
  out["from"] = at;
  for (const std::size_t begin = at; at < trace.steps.size(); ++at) {
    std::size_t most = kFirstCalls + kSlowestCalls + kOpenCalls;
    json::object step = step_json(trace.steps[at], trace, most, now);
    std::size_t more = json::serialize(step).size();
    while (more > kMaxPieceBytes && most > 1) {
      step = step_json(trace.steps[at], trace, --most, now);
      more = json::serialize(step).size();
    }
    bytes += more;
    if (bytes > kMaxPieceBytes && at > begin) break;
    steps.push_back(std::move(step));
  }
  out["steps"] = std::move(steps);
  if (at < trace.steps.size()) out["next"] = at;
  return out;
}

}  // namespace gearbox::explain
