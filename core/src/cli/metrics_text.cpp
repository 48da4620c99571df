#include "cli/metrics_text.hpp"

#include <boost/json/array.hpp>

#include <string_view>

#include "cli/json_facts.hpp"
#include "cli/metrics_page.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

using Labels = MetricsPage::Labels;
constexpr double kMicro = 1e-6;
constexpr double kMilli = 1e-3;

/// Calls `each` for every object of the list `key`.
template <class Each>
void for_each(const json::object& object, std::string_view key, Each each) {
  for (const json::value& value : list_in(object, key)) {
    if (value.is_object()) each(value.get_object());
  }
}

void add_roles(MetricsPage& page, const json::object& facts) {
  for (const char* role : {"supervisor", "central", "standby", "node", "observer", "executor", "scheduler"}) {
    const json::value* status = facts.if_contains(role);
    if (status == nullptr) continue;
    const Labels labels{{"role", role}};
    page.add("gearbox_up", "gauge", "Whether the role answers on this host.", status->is_object() ? 1 : 0, labels);
    if (!status->is_object()) continue;
    const json::object& its = status->get_object();
    page.add_member("gearbox_ready", "gauge", "Whether it can do all that it is configured for.", its, "ready", labels);
    page.add_member("gearbox_uptime_seconds", "gauge", "Since this process of it began.", its, "uptime_ms", labels,
                    kMilli);
    if (const std::string version = text_in(its, "version"); !version.empty()) {
      page.add("gearbox_build_info", "gauge", "1, with the version as a label.", 1,
               {{"role", role}, {"version", version}});
    }
  }
  for_each(object_in(facts, "supervisor"), "children", [&](const json::object& child) {
    page.add_member("gearbox_role_restarts_total", "counter", "Times that the supervisor started it again.", child,
                    "restarts", {{"role", text_in(child, "role")}});
  });
}

void add_requests(MetricsPage& page, const json::object& node) {
  const json::object& counters = object_in(node, "counters");
  page.add_member("gearbox_node_requests_open", "gauge", "Requests that are not over.", counters, "open");
  struct Counter {
    const char *key, *name, *help;
  };
  static constexpr Counter kCounters[] = {
      {"announced", "gearbox_node_requests_announced_total", "Requests that devices announced."},
      {"accepted", "gearbox_node_requests_accepted_total", "Requests whose bytes were there, whole."},
      {"answered", "gearbox_node_requests_answered_total", "Requests that ended with a result."},
      {"failed", "gearbox_node_requests_failed_total", "Requests that ended with an error."},
      {"refused", "gearbox_node_requests_refused_total", "Requests that were not taken."},
      {"repeated", "gearbox_node_requests_repeated_total", "Requests that were here already."},
      {"expired", "gearbox_node_requests_expired_total", "Requests whose deadline passed."},
      {"recovered", "gearbox_node_requests_recovered_total",
       "Requests taken over from the journal of an earlier process."},
      {"wire_bytes", "gearbox_node_received_wire_bytes_total", "Bytes of payloads as they came."},
      {"plain_bytes", "gearbox_node_received_plain_bytes_total", "Bytes of payloads as they were unpacked."},
      {"retries", "gearbox_node_step_retries_total", "Steps that were tried again."},
      {"quarantined", "gearbox_node_quarantined_total", "Requests that were put into quarantine."}};
  for (const Counter& counter : kCounters)
    page.add_member(counter.name, "counter", counter.help, counters, counter.key);
  page.add_member("gearbox_node_in_quarantine", "gauge", "Requests in quarantine.", counters, "in_quarantine");
  page.add_member("gearbox_node_sessions", "gauge", "Devices that are connected.", node, "sessions");
  page.add_member("gearbox_node_central_connected", "gauge", "Whether the node reports to a central.",
                  object_in(node, "central"), "connected");
}

void add_models(MetricsPage& page, const json::object& node) {
  for_each(node, "models", [&](const json::object& model) {
    const Labels labels{{"model", text_in(model, "name")}, {"version", text_in(model, "version")}};
    page.add_member("gearbox_model_queued", "gauge", "Calls that wait.", model, "queued", labels);
    page.add_member("gearbox_model_running", "gauge", "Calls that run.", model, "running", labels);
    page.add_member("gearbox_model_workers", "gauge", "Workers of it, ready or not.", model, "workers", labels);
    page.add_member("gearbox_model_workers_ready", "gauge", "Workers of it that take calls.", model, "ready", labels);
    page.add_member("gearbox_model_step_p95_seconds", "gauge", "95th percentile of a call, over 10 s.", model,
                    "step_p95_us", labels, kMicro);
  });
  for_each(node, "tasks", [&](const json::object& task) {
    page.add_member("gearbox_task_ready", "gauge", "Whether every model of the task has a worker.", task, "ready",
                    {{"task", text_in(task, "name")}});
  });
  for_each(node, "workers", [&](const json::object& worker) {
    const Labels labels{{"model", text_in(worker, "model")},
                        {"version", text_in(worker, "version")},
                        {"worker", std::to_string(number_in(worker, "slot"))}};
    page.add_member("gearbox_worker_calls_total", "counter", "Calls of this process of it.", worker, "calls", labels);
    page.add_member("gearbox_worker_failures_total", "counter", "Calls that failed.", worker, "failures", labels);
    page.add_member("gearbox_worker_restarts_total", "counter", "Times that it was started again.", worker, "restarts",
                    labels);
    page.add_member("gearbox_worker_memory_bytes", "gauge", "Resident memory.", worker, "memory_bytes", labels);
  });
  const json::object& ended = object_in(node, "workers_ended");
  for (const auto& [reason, count] : ended) {
    page.add_member("gearbox_workers_ended_total", "counter", "Workers that the node ended.", ended, reason,
                    {{"reason", std::string(reason)}});
  }
}

void add_memory_and_files(MetricsPage& page, const json::object& node) {
  const json::object& memory = object_in(node, "memory");
  for (const char* arena : {"input", "output"}) {
    const Labels labels{{"arena", arena}};
    const std::string prefix = arena;
    page.add_member("gearbox_shared_memory_bytes", "gauge", "Shared memory that there is.", memory, prefix + "_bytes",
                    labels);
    page.add_member("gearbox_shared_memory_used_bytes", "gauge", "Shared memory in use.", memory, prefix + "_used",
                    labels);
  }
  const json::object& store = object_in(node, "store");
  page.add_member("gearbox_store_bytes", "gauge", "Bytes of kept frames and results.", store, "bytes");
  page.add_member("gearbox_store_kept_total", "counter", "Results that were kept.", store, "kept");
  page.add_member("gearbox_store_dropped_total", "counter", "Results that could not be kept.", store, "dropped");
  const json::object& journal = object_in(node, "journal");
  page.add_member("gearbox_journal_requests", "gauge", "Requests that were acknowledged and are not delivered.",
                  journal, "requests");
  page.add_member("gearbox_journal_bytes", "gauge", "Bytes of the journal's files.", journal, "bytes");
  page.add_member("gearbox_journal_failed_total", "counter", "Writes of the journal that failed.", journal, "failed");
  for_each(object_in(node, "sinks"), "list", [&](const json::object& sink) {
    const Labels labels{{"sink", text_in(sink, "name")}};
    page.add_member("gearbox_sink_queued", "gauge", "Events that wait.", sink, "queued", labels);
    page.add_member("gearbox_sink_delivered_total", "counter", "Events that were delivered.", sink, "delivered",
                    labels);
    page.add_member("gearbox_sink_retried_total", "counter", "Deliveries that were tried again.", sink, "retried",
                    labels);
    page.add_member("gearbox_sink_dead_letters_total", "counter", "Events that cannot be delivered.", sink,
                    "dead_letters", labels);
  });
  for_each(object_in(node, "gpus"), "list", [&](const json::object& gpu) {
    const Labels labels{{"gpu", std::to_string(number_in(gpu, "index"))}};
    page.add_member("gearbox_gpu_memory_bytes", "gauge", "Memory of the card.", gpu, "memory_total_bytes", labels);
    page.add_member("gearbox_gpu_memory_used_bytes", "gauge", "Memory of it in use.", gpu, "memory_used_bytes", labels);
    page.add_member("gearbox_gpu_busy_ratio", "gauge", "Share of the time in which it did anything.", gpu,
                    "busy_percent", labels, 0.01);
  });
}

void add_central(MetricsPage& page, const json::object& central) {
  page.add_member("gearbox_central_connections", "gauge", "Open connections.", central, "connections");
  const json::object& counters = object_in(central, "counters");
  for (const auto& [key, count] : counters) {
    page.add_member("gearbox_central_" + std::string(key) + "_total", "counter",
                    "Counted by central since it began; see docs/metrics.md.", counters, key);
  }
  for_each(central, "nodes", [&](const json::object& node) {
    const Labels labels{{"node", text_in(node, "name")}};
    const bool alive = text_in(node, "state") == "alive";
    page.add("gearbox_central_node_alive", "gauge", "Whether the node's reports come.", alive ? 1 : 0, labels);
    page.add_member("gearbox_central_node_queued", "gauge", "Calls that wait there.", node, "queued", labels);
    page.add_member("gearbox_central_node_running", "gauge", "Calls that run there.", node, "running", labels);
    page.add_member("gearbox_central_node_sessions", "gauge", "Devices that are connected there.", node, "sessions",
                    labels);
  });
}

void add_group(MetricsPage& page, const json::object& group) {
  const Labels labels{{"group", text_in(group, "name")}};
  const auto gauge = [&](const char* name, const char* help, const char* key, double scale = 1) {
    page.add_member(name, "gauge", help, group, key, labels, scale);
  };
  const auto counter = [&](const char* name, const char* help, const char* key) {
    page.add_member(name, "counter", help, group, key, labels);
  };
  gauge("gearbox_group_gear", "The gear that it is in, 1 to 6; 0 in a plan of its own.", "gear");
  gauge("gearbox_group_stale", "Whether its figures are old, because it does not answer.", "stale");
  gauge("gearbox_group_running", "Sequences that run.", "running");
  gauge("gearbox_group_waiting", "Sequences that wait.", "waiting");
  gauge("gearbox_group_busy_ratio", "Share of the time in which its ranks do anything, mean of 60 samples.",
        "busy_mean");
  gauge("gearbox_group_busy_peak_ratio", "The largest of those samples.", "busy_peak");
  gauge("gearbox_group_memory_pressure_ratio", "Used part of the fullest rank's cache.", "memory_pressure");
  gauge("gearbox_group_link_slowdown_ratio", "Times that its links are slower than told.", "link_slowdown");
  counter("gearbox_group_tokens_total", "Tokens that it gave.", "tokens");
  counter("gearbox_group_steps_total", "Steps of its ranks.", "steps");
  counter("gearbox_group_shifts_total", "Shifts that came about.", "shifts");
  counter("gearbox_group_evicted_total", "Sequences that had to make room and were computed again.", "evicted");
  const json::object& load = object_in(group, "load");
  page.add_member("gearbox_group_first_token_seconds", "gauge", "Median time to the first token.", load,
                  "first_token_ms", labels, kMilli);
  page.add_member("gearbox_group_per_token_seconds", "gauge", "Median time of a further token.", load, "per_token_ms",
                  labels, kMilli);
  page.add_member("gearbox_group_arrivals_per_second", "gauge", "Requests, mean of 40 s.", object_in(load, "slow"),
                  "requests_per_s", labels);
}

void add_gears(MetricsPage& page, const json::object& facts) {
  for_each(facts, "groups", [&](const json::object& group) { add_group(page, group); });
  for_each(facts, "links", [&](const json::object& link) {
    const Labels labels{{"peer", text_in(link, "peer")}};
    page.add_member("gearbox_link_failed", "gauge", "Whether the last probe had no answer.", link, "failed", labels);
    page.add_member("gearbox_link_latency_seconds", "gauge", "Of a small message there and back.", link, "latency_us",
                    labels, kMicro);
    page.add_member("gearbox_link_bytes_per_second", "gauge", "Of the last burst.", link, "bytes_per_s", labels);
    page.add_member("gearbox_link_usual_bytes_per_second", "gauge", "What is usual on that link.", link,
                    "usual_bytes_per_s", labels);
  });
  const json::object& scheduler = object_in(facts, "scheduler");
  page.add_member("gearbox_scheduler_leads", "gauge", "Whether this scheduler holds the lease.", scheduler, "leads");
  page.add_member("gearbox_scheduler_term", "gauge", "Term of the lease that it knows of.", scheduler, "term");
  page.add_member("gearbox_scheduler_trust_ratio", "gauge", "Trust in this host, 0 to 1.", scheduler, "trust");
  page.add_member("gearbox_scheduler_rounds_total", "counter", "Snapshots that were decided on.", scheduler, "rounds");
  page.add_member("gearbox_scheduler_decisions_total", "counter", "Entries of its book of decisions.", scheduler,
                  "decisions");
  page.add_member("gearbox_scheduler_round_seconds", "gauge", "What the last round took.", scheduler, "last_round_us",
                  {}, kMicro);
  page.add_member("gearbox_executor_term", "gauge", "The highest term that it has obeyed.",
                  object_in(facts, "executor"), "term");
}

}  // namespace

std::string metrics_text(const json::object& facts) {
  MetricsPage page;
  add_roles(page, facts);
  if (const json::object& node = object_in(facts, "node"); !node.empty()) {
    add_requests(page, node);
    add_models(page, node);
    add_memory_and_files(page, node);
  }
  if (const json::object& central = object_in(facts, "central"); !central.empty()) add_central(page, central);
  add_gears(page, facts);
  return page.text();
}

}  // namespace gearbox::cli
