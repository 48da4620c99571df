#include "node/facts.hpp"

#include <unistd.h>

#include <boost/json/array.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "config/unserved.hpp"
#include "config/versions.hpp"
#include "node/gpu_facts.hpp"
#include "node/sink_facts.hpp"
#include "plugin_host/plugins_json.hpp"

namespace gearbox::node {

namespace json = boost::json;
using worker_pool::WorkerView;

namespace {

using ModelKey = std::pair<std::string, std::string>;

struct ModelFacts {
  std::uint32_t workers = 0, ready = 0, running = 0;
  microseconds p95{0};
  std::string state, reason;
  std::map<std::string, std::pair<std::uint32_t, std::string>>
      others;  // state → how many that are not ready, and why one
};

/// One entry for each model and version that has workers here.
std::map<ModelKey, ModelFacts> models_of(const worker_pool::WorkerPool& pool) {
  std::map<ModelKey, ModelFacts> models;
  for (const WorkerView& worker : pool.workers()) {
    ModelFacts& model = models[{worker.model, worker.version}];
    ++model.workers;
    model.running += worker.running;
    model.p95 = std::max(model.p95, worker.step_p95);
    if (worker.state == "ready") ++model.ready;
    // What the model is as a whole: ready as soon as one worker is, else what the one that has come furthest says.
    if (worker.state == "ready" || model.state.empty() || (model.state == "failed" && worker.state != "failed")) {
      if (model.state != "ready") {
        model.state = worker.state;
        model.reason = worker.reason;
      }
    }
    if (worker.state != "ready" && !worker.reason.empty()) {
      auto& [count, why] = model.others[worker.state];
      ++count;
      why = worker.reason;
    }
  }
  for (auto& [key, model] : models) {
    // Beside those that serve: how many do not, and why; the failed ones before those that may still come.
    if (model.state != "ready" || model.others.empty()) continue;
    const auto failed = model.others.find("failed");
    const auto& [state, told] = failed != model.others.end() ? *failed : *model.others.begin();
    model.reason = std::to_string(told.first) + " " + state + ": " + told.second;
  }
  return models;
}

/// Which of the task's models no worker is ready for: not even an earlier version that stands in.
std::vector<std::string> missing_of(const FactSources& from, const config::TaskConfig& task) {
  std::vector<std::string> missing;
  for (const config::StepConfig& step : task.steps) {
    const auto now = from.pool->resolve(*from.config, step.model, step.version);
    if (now.service != worker_pool::Service::ready) missing.push_back(step.model);
  }
  return missing;
}

std::uint32_t number(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}

}  // namespace

wire::NodeReport report_of(const FactSources& from) {
  wire::NodeReport report;
  report.name = from.config->node.name;
  report.addresses = {from.url};
  report.channel_key = from.channel_key;
  report.sessions = number(from.sessions);
  report.draining = from.requests->draining();
  report.config_digest = from.config->digest;
  const auto load = from.dispatcher->load();
  for (const auto& [name, counts] : load) {
    report.queued += counts.queued;
    report.running += counts.running;
  }
  const auto models = models_of(*from.pool);
  for (const auto& [key, facts] : models) {
    wire::ModelReport model;
    model.name = key.first;
    model.version = key.second;
    model.workers = facts.ready;
    if (const auto counts = load.find(key.first); counts != load.end()) model.queued = counts->second.queued;
    model.running = facts.running;
    model.step_p95_us = static_cast<std::uint64_t>(facts.p95.count());
    report.models.push_back(std::move(model));
  }
  for (const auto& [name, task] : from.config->tasks) {
    wire::TaskReport entry;
    entry.name = name;
    for (const config::StepConfig& step : task.steps) {
      const auto record = from.pool->resolve(*from.config, step.model, step.version).record;
      entry.models.push_back(!record ? step.model : record->name + "@" + record->version);
    }
    entry.ready = missing_of(from, task).empty();
    report.tasks.push_back(std::move(entry));
  }
  return report;
}

json::object status_of(const FactSources& from) {
  json::object status;
  const auto models = models_of(*from.pool);
  const auto load = from.dispatcher->load();
  bool ready = true;
  json::array model_list;
  for (const auto& [key, facts] : models) {
    const auto counts = load.find(key.first);
    model_list.push_back(json::object{{"name", key.first},
                                      {"version", key.second},
                                      {"workers", facts.workers},
                                      {"ready", facts.ready},
                                      {"state", facts.state},
                                      {"reason", facts.reason},
                                      {"queued", counts == load.end() ? 0U : counts->second.queued},
                                      {"running", facts.running},
                                      {"step_p95_us", facts.p95.count()}});
  }
  // Those that have no worker at all, and never will, say so in the same list.
  for (const config::Unserved& unserved : unserved_of(*from.config)) {
    const bool served = std::any_of(models.begin(), models.end(), [&](const auto& entry) {
      return entry.first.first == unserved.model && config::admits(unserved.version, entry.first.second);
    });
    const bool told = std::any_of(model_list.begin(), model_list.end(), [&](const json::value& other) {
      return other.as_object().at("reason").as_string() == json::string_view(unserved.reason);
    });
    if (served || told) continue;
    model_list.push_back(json::object{{"name", unserved.model},
                                      {"version", unserved.version},
                                      {"workers", 0U},
                                      {"ready", 0U},
                                      {"state", "no worker"},
                                      {"reason", unserved.reason},
                                      {"queued", 0U},
                                      {"running", 0U},
                                      {"step_p95_us", 0}});
  }
  json::array task_list;
  for (const auto& [name, task] : from.config->tasks) {
    const auto missing = missing_of(from, task);
    ready = ready && missing.empty();
    json::array missing_list(missing.begin(), missing.end());
    task_list.push_back(json::object{
        {"name", name}, {"summary", task.summary}, {"ready", missing.empty()}, {"missing", std::move(missing_list)}});
  }
  json::array worker_list;
  for (const WorkerView& worker : from.pool->workers()) {
    worker_list.push_back(json::object{{"id", static_cast<std::uint32_t>(worker.id)},
                                       {"slot", worker.place},
                                       {"model", worker.model},
                                       {"version", worker.version},
                                       {"state", worker.state},
                                       {"reason", worker.reason},
                                       {"retired", worker.retired},
                                       {"pid", worker.pid},
                                       {"running", worker.running},
                                       {"calls", worker.calls},
                                       {"failures", worker.failures},
                                       {"mean_batch", worker.mean_batch},
                                       {"restarts", worker.restarts},
                                       {"reattached", worker.reattached},
                                       {"memory_bytes", worker.memory_bytes},
                                       {"memory_limit_bytes", worker.memory_limit_bytes},
                                       {"step_p95_us", worker.step_p95.count()},
                                       {"pool", worker.pool.name},
                                       {"devices", worker.devices},
                                       {"gpus", gpus_of(*from.pool, worker)},
                                       {"gpu_memory_mb", worker.gpu_memory_mb}});
  }
  const worker_pool::WorkerPool::Memory memory = from.pool->memory();
  const session::RequestCounters& counted = from.requests->counters();
  status["name"] = from.config->node.name;
  status["version"] = GEARBOX_VERSION;
  status["pid"] = ::getpid();
  status["uptime_ms"] = std::chrono::duration_cast<milliseconds>(Clock::now() - from.started).count();
  status["ready"] = ready && !from.requests->draining();
  status["draining"] = from.requests->draining();
  status["listen"] = from.url;
  status["channel_key"] = from.channel_key;
  status["identity_key"] = from.identity_key;
  status["config_digest"] = from.config->digest;
  status["central"] = json::object{{"connected", from.central_connected}, {"error", from.central_error}};
  status["sessions"] = from.sessions;
  status["models"] = std::move(model_list);
  status["tasks"] = std::move(task_list);
  status["workers"] = std::move(worker_list);
  status["gpus"] = gpu_facts(*from.pool);
  status["memory"] = json::object{{"input_bytes", memory.input_bytes},
                                  {"input_used", memory.input_used},
                                  {"output_bytes", memory.output_bytes},
                                  {"output_used", memory.output_used}};
  status["counters"] = json::object{{"open", from.requests->open()},
                                    {"announced", counted.announced},
                                    {"accepted", counted.accepted},
                                    {"answered", counted.answered},
                                    {"failed", counted.failed},
                                    {"refused", counted.refused},
                                    {"repeated", counted.repeated},
                                    {"expired", counted.expired},
                                    {"recovered", counted.recovered},
                                    {"wire_bytes", counted.wire_bytes},
                                    {"plain_bytes", counted.plain_bytes},
                                    {"retries", from.dispatcher->retries()},
                                    {"quarantined", from.dispatcher->quarantined()},
                                    {"in_quarantine", from.requests->quarantine().all().size()}};
  const worker_pool::WorkerPool::Ended ended = from.pool->ended();
  status["workers_ended"] = json::object{{"frozen", ended.frozen},
                                         {"stuck", ended.stuck},
                                         {"over_memory_limit", ended.outgrown},
                                         {"cancelled", ended.cancelled}};
  const worker_pool::WorkerPool::CameBack back = from.pool->came_back();
  status["workers_reattached"] = json::object{{"taken", back.taken}, {"refused", back.refused}, {"late", back.late}};
  json::object store{{"enabled", from.store != nullptr}};
  if (from.store != nullptr) {
    const store::Counters kept = from.store->counters();
    store["kept"] = kept.kept;
    store["dropped"] = kept.dropped;
    store["removed"] = kept.removed;
    store["bytes"] = kept.bytes;
    store["last_error"] = kept.last_error;
  }
  status["store"] = std::move(store);
  json::object journal{{"level", from.config->node.journal.level}};
  if (from.journal != nullptr) {
    const journal::Counters kept = from.journal->counters();
    journal["requests"] = kept.requests;
    journal["bytes"] = kept.bytes;
    journal["accepted"] = kept.accepted;
    journal["answered"] = kept.settled;
    journal["commits"] = kept.commits;
    journal["failed"] = kept.failed;
    journal["last_error"] = kept.last_error;
    journal["set_aside"] = kept.set_aside.string();
  }
  status["journal"] = std::move(journal);
  if (from.sinks != nullptr) status["sinks"] = sink_facts(from.sinks->facts());
  status["plugins"] = plugin_host::plugins_json(from.plugins->list());
  return status;
}

}  // namespace gearbox::node
