#include "config/values_of.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <type_traits>
#include <utility>

#include "config/secrets.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::config {

namespace {

constexpr std::size_t kShortDigest = 12;  // hexadecimal digits: enough to tell two versions apart

/// Collects values below one table; "worker[detect]" counts as a part of its own.
class List {
 public:
  List(std::vector<Value>& all, std::vector<std::string> path, std::string prefix)
      : all_(all), path_(std::move(path)), prefix_(std::move(prefix)) {}

  List table(const std::string& part) const { return below(part, prefix_.empty() ? part : prefix_ + "." + part); }
  /// "worker" → "worker[id]"
  List entry(const std::string& id) const { return below(id, prefix_ + "[" + id + "]"); }

  void text(const std::string& key, std::string value) const { add(key, std::move(value), Value::Kind::text); }
  void truth(const std::string& key, bool value) const { add(key, value ? "true" : "false", Value::Kind::truth); }
  void number(const std::string& key, std::uint64_t value) const {
    add(key, std::to_string(value), Value::Kind::number);
  }
  void number(const std::string& key, std::int64_t value) const {
    add(key, std::to_string(value), Value::Kind::number);
  }
  void number(const std::string& key, std::uint32_t value) const { number(key, std::uint64_t{value}); }
  void ms(const std::string& key, milliseconds value) const { number(key, std::int64_t{value.count()}); }
  void mb(const std::string& key, std::uint64_t bytes) const { number(key, bytes >> 20); }
  void option(const std::string& key, const OptionValue& value) const {
    std::visit(
        [&](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, bool>) {
            truth(key, held);
          } else if constexpr (std::is_same_v<Held, std::int64_t>) {
            number(key, held);
          } else if constexpr (std::is_same_v<Held, double>) {
            char digits[32];  // the shortest that reads back as the same number
            add(key, std::string(digits, std::to_chars(digits, digits + sizeof digits, held).ptr), Value::Kind::number);
          } else {
            text(key, names_a_secret(key) ? hidden(held) : without_passwords(held));
          }
        },
        value);
  }

 private:
  List below(const std::string& part, std::string prefix) const {
    std::vector<std::string> path = path_;
    path.push_back(part);
    return List(all_, std::move(path), std::move(prefix));
  }
  void add(const std::string& key, std::string value, Value::Kind kind) const {
    std::vector<std::string> path = path_;
    path.push_back(key);
    all_.push_back({prefix_ + "." + key, std::move(value), kind, std::move(path)});
  }

  std::vector<Value>& all_;
  std::vector<std::string> path_;
  std::string prefix_;
};

/// Of a folder inside the configuration's own, as its files would name it.
std::string relative_to(const std::filesystem::path& folder, const std::filesystem::path& path) {
  const std::filesystem::path inside = path.lexically_relative(folder);
  if (inside.empty() || *inside.begin() == "..") return path.string();
  return inside.string();
}

// Each struct is taken apart whole: a field that is added there and forgotten here does not compile.

void list_central(const List& list, const CentralConfig& central) {
  const auto& [enabled, listen, database, balancer, node_silent, ticket_ttl, idle, max_connections, checks_at_once,
               tries] = central;
  list.truth("enabled", enabled);
  list.text("listen", listen);
  list.text("database", database);
  list.text("balancer", balancer);
  list.ms("node_silent_ms", node_silent);
  list.ms("ticket_ttl_ms", ticket_ttl);
  list.ms("idle_ms", idle);
  list.number("max_connections", max_connections);
  list.number("password_checks_at_once", checks_at_once);
  list.number("password_tries_per_minute", tries);
}

void list_limits(const List& list, const LimitsConfig& limits) {
  const auto& [upload_bytes, pixels, input_arena, output_arena, connections, requests, per_device, per_tenant,
               tenant_bytes, uploads, deadline, idle] = limits;
  list.mb("max_upload_mb", upload_bytes);
  list.number("max_pixels", pixels);
  list.mb("input_arena_mb", input_arena);
  list.mb("output_arena_mb", output_arena);
  list.number("max_connections", connections);
  list.number("max_requests", requests);
  list.number("max_requests_per_device", per_device);
  list.number("max_requests_per_tenant", per_tenant);
  list.mb("max_tenant_mb", tenant_bytes);
  list.number("max_uploads_at_once", uploads);
  list.ms("default_deadline_ms", deadline);
  list.ms("idle_ms", idle);
}

void list_store(const List& list, const StoreConfig& store) {
  const auto& [enabled, keep_inputs, keep_hours, max_bytes] = store;
  list.truth("enabled", enabled);
  list.truth("keep_inputs", keep_inputs);
  list.number("keep_hours", keep_hours);
  list.mb("max_mb", max_bytes);
}

void list_journal(const List& list, const JournalConfig& journal) {
  const auto& [level, max_bytes, keep_hours] = journal;
  list.text("level", level);
  list.mb("max_mb", max_bytes);
  list.number("keep_hours", keep_hours);
}

void list_sink(const List& list, const SinkConfig& sink) {
  const auto& [name, plugin, tasks, max_events, max_bytes, batch, timeout, retry_max, dead_letter_bytes, options] =
      sink;  // the name is in the id
  list.text("plugin", plugin);
  std::string all_tasks;
  for (const std::string& task : tasks) all_tasks += (all_tasks.empty() ? "" : ", ") + task;
  list.text("tasks", std::move(all_tasks));
  list.number("max_events", max_events);
  list.mb("max_mb", max_bytes);
  list.number("batch", batch);
  list.ms("timeout_ms", timeout);
  list.ms("retry_max_ms", retry_max);
  list.mb("dead_letter_mb", dead_letter_bytes);
  for (const auto& [key, value] : options) list.table("options").option(key, value);
}

void list_node(const List& list, const NodeConfig& node) {
  const auto& [enabled, name, listen, advertise, central, central_key, balancer, spin_us, explain, recorded,
               recorded_payload_bytes, drain, reattach, limits, store, journal, sinks] = node;
  list.truth("enabled", enabled);
  list.text("name", name);
  list.text("listen", listen);
  list.text("advertise", advertise);
  list.text("central", central);
  list.text("central_key", central_key);
  list.text("balancer", balancer);
  list.number("spin_us", spin_us);
  list.number("explain_requests", explain);
  list.number("recorded_requests", recorded);
  list.mb("recorded_payload_mb", recorded_payload_bytes);
  list.ms("drain_ms", drain);
  list.ms("reattach_ms", reattach);
  list_limits(list.table("limits"), limits);
  list_store(list.table("store"), store);
  list_journal(list.table("journal"), journal);
  for (const SinkConfig& sink : sinks) list_sink(list.table("sinks").entry(sink.name), sink);
}

void list_env(const List& list, const EnvConfig& env) {
  const auto& [python] = env;
  list.text("python", python);
}

/// One id for each [[worker]] table: its model, with as much more as tells it from the others of that model. Not its
/// place in the file, which changes when a table is put in front.
std::vector<std::string> worker_ids(const std::vector<WorkerConfig>& workers) {
  const auto candidates = [](const WorkerConfig& worker) {
    const std::string exact = worker.version.empty() ? worker.model : worker.model + "@" + worker.version;
    const std::string in_env = exact + ", " + worker.env;
    const std::string on = worker.devices.empty() ? in_env : in_env + ", " + worker.devices;
    return std::vector<std::string>{worker.model, exact, in_env, on,
                                    worker.pool.empty() ? on : on + ", pool " + worker.pool};
  };
  std::vector<std::map<std::string, int>> seen(5);
  for (const WorkerConfig& worker : workers) {
    const std::vector<std::string> ids = candidates(worker);
    for (std::size_t i = 0; i < ids.size(); ++i) ++seen[i][ids[i]];
  }
  std::map<std::string, int> twins;
  std::vector<std::string> chosen;
  for (const WorkerConfig& worker : workers) {
    const std::vector<std::string> ids = candidates(worker);
    std::size_t i = 0;
    while (i + 1 < ids.size() && seen[i][ids[i]] > 1) ++i;
    std::string id = ids[i];
    if (seen[i][id] > 1) id += ", #" + std::to_string(++twins[id]);
    chosen.push_back(std::move(id));
  }
  return chosen;
}

void list_workers(const List& list, const std::vector<WorkerConfig>& workers) {
  const std::vector<std::string> ids = worker_ids(workers);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const auto& [model, version, env, count, devices, memory_limit, pool] = workers[i];  // the model is in the id
    const List worker = list.entry(ids[i]);
    worker.text("version", version);
    worker.text("env", env);
    worker.number("count", count);
    worker.text("devices", devices);
    worker.mb("memory_limit_mb", memory_limit);
    worker.text("pool", pool);
  }
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

void list_links(const List& list, const LinksConfig& links) {
  const auto& [listen, peers, ping, burst_every, burst_bytes] = links;
  list.text("listen", listen);
  list.text("peers", joined(peers));
  list.ms("ping_ms", ping);
  list.ms("burst_every_ms", burst_every);
  list.number("burst_kb", burst_bytes >> 10);
}

void list_gears(const List& list, const GearsConfig& gears) {
  const auto& [enabled, policy, coordination, lease, hosts, leaders, mode, dry_run, interval, dwell, urgent_dwell,
               reverse_cooldown, least_gain, at_once, per_hour, hours, card, links, pools] = gears;
  list.truth("enabled", enabled);
  list.text("policy", policy);
  list.text("coordination", coordination);
  list.text("lease", lease);
  list.text("hosts", joined(hosts));
  list.text("leaders", joined(leaders));
  list.text("mode", mode);
  list.truth("dry_run", dry_run);
  list.ms("interval_ms", interval);
  list.ms("dwell_ms", dwell);
  list.ms("urgent_dwell_ms", urgent_dwell);
  list.ms("reverse_cooldown_ms", reverse_cooldown);
  list.option("least_gain", OptionValue(least_gain));
  list.number("at_once", at_once);
  list.number("per_hour", per_hour);
  list.text("hours", joined(hours));
  list.text("card", card);
  list_links(list.table("links"), links);
  for (const PoolConfig& pool : pools) {
    const auto& [name, models, allowed, groups, tenants, least_bytes, most_bytes, lends_percent] = pool;
    const List entry = list.table("pool").entry(name);
    entry.text("models", joined(models));
    entry.text("groups", joined(groups));
    std::vector<std::string> numbers;
    for (const std::uint32_t gear : allowed) numbers.push_back(std::to_string(gear));
    entry.text("gears", joined(numbers));
    numbers.clear();
    for (const std::uint32_t tenant : tenants) numbers.push_back(std::to_string(tenant));
    entry.text("tenants", joined(numbers));
    entry.number("least_kb", least_bytes >> 10);
    entry.number("most_kb", most_bytes >> 10);
    entry.number("lends_percent", lends_percent);
  }
}

void list_plugins(const List& list, const PluginsConfig& plugins, const std::filesystem::path& folder) {
  const auto& [drop_folder, trusted_keys, fault_limit, call_budget, hang, gate, plugin_tables] = plugins;
  list.text("folder", relative_to(folder, drop_folder));
  std::vector<std::string> keys;
  for (const PublicKey& key : trusted_keys) keys.push_back(to_text(key));
  std::sort(keys.begin(), keys.end());  // a set: their order says nothing
  std::string all_keys;
  for (const std::string& key : keys) all_keys += (all_keys.empty() ? "" : ", ") + key;
  list.text("trusted_keys", std::move(all_keys));
  list.number("fault_limit", fault_limit);
  list.ms("call_budget_ms", call_budget);
  list.ms("hang_ms", hang);
  const auto& [on, trace, cluster, models, tolerance_percent, limit, least_requests, uses, rules] =
      gate;  // uses and rules are told elsewhere
  list.truth("gate", on);
  list.text("gate_trace", trace.starts_with("make:") ? trace : relative_to(folder, trace));
  list.text("gate_cluster", relative_to(folder, cluster));
  std::string all_models;
  for (const std::filesystem::path& model : models)
    all_models += (all_models.empty() ? "" : ", ") + relative_to(folder, model);
  list.text("gate_model", std::move(all_models));
  list.option("gate_tolerance_percent", OptionValue(tolerance_percent));
  list.number("gate_limit_s", std::int64_t{limit.count()});
  list.number("gate_least_requests", least_requests);
  for (const auto& [name, options] : plugin_tables) {
    const List plugin = list.table(name);
    for (const auto& [key, value] : options) plugin.option(key, value);
  }
}

void list_sources(const List& list, const std::map<std::string, TensorSource>& sources) {
  for (const auto& [name, source] : sources) list.text(name, source.step + "." + source.tensor);
}

void list_step(const List& list, const StepConfig& step) {
  const auto& [name, model, version, inputs, for_each, deadline_share, retry] = step;
  list.text("model", model);
  list.text("version", version);
  list.text("for_each", for_each);
  list.option("deadline_share", deadline_share);
  list.number("retry", retry);
  list_sources(list.table("inputs"), inputs);
}

void list_task(const List& list, const TaskConfig& task) {
  const auto& [name, summary, inputs, allow_lossy, steps, result, deadline] = task;
  list.text("summary", summary);
  list.truth("allow_lossy", allow_lossy);
  list.ms("deadline_ms", deadline);
  for (const model::TensorDecl& input : inputs) list.table("input").text(input.name, model::shown(input));
  std::string order;
  for (const StepConfig& step : steps) order += (order.empty() ? "" : ", ") + step.name;
  list.text("steps", std::move(order));
  for (const StepConfig& step : steps) list_step(list.table("step").table(step.name), step);
  list_sources(list.table("result"), result);
}

void list_tensors(const List& list, const std::vector<model::TensorDecl>& tensors, bool with_probe) {
  for (const model::TensorDecl& tensor : tensors) {
    std::string text = model::shown(tensor);
    if (with_probe) {
      text += ", probe [";
      for (std::size_t i = 0; i < tensor.probe_shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(tensor.probe_shape[i]);
      }
      text += "]";
    }
    list.text(tensor.name, std::move(text));
  }
}

void list_model(const List& list, const model::Record& record, const std::filesystem::path& config_folder) {
  const auto& [name, version, framework, summary, file, class_name, inputs, outputs, max_batch, max_delay_ms, prefetch,
               threads, memory_mb, max_output_bytes, stream, streams, repeatable, load_timeout_ms, call_timeout_ms,
               cancel_by_restart, folder, digest] = record;
  list.text("digest", digest.substr(0, kShortDigest));
  list.text("folder", relative_to(config_folder, folder));
  list.text("framework", framework);
  list.text("summary", summary);
  list.text("file", file);
  list.text("class", class_name);
  list.number("max_batch", max_batch);
  list.number("max_delay_ms", max_delay_ms);
  list.number("prefetch", prefetch);
  list.number("threads", threads);
  list.number("memory_mb", memory_mb);
  list.number("max_output_kb", max_output_bytes >> 10);
  list.truth("stream", stream);
  list.number("streams", streams);
  list.truth("repeatable", repeatable);
  list.number("load_timeout_ms", load_timeout_ms);
  list.number("call_timeout_ms", call_timeout_ms);
  list.truth("cancel_by_restart", cancel_by_restart);
  list_tensors(list.table("input"), inputs, true);
  list_tensors(list.table("output"), outputs, false);
}

}  // namespace

std::vector<Value> values_of(const Config& config) {
  const auto& [folder, digest, central, node, workers, envs, tasks, models, plugins, gears] = config;
  std::vector<Value> all;
  const List root(all, {}, "");
  list_central(root.table("central"), central);
  list_node(root.table("node"), node);
  for (const auto& [name, env] : envs) list_env(root.table("env").table(name), env);
  list_workers(root.table("worker"), workers);
  list_plugins(root.table("plugins"), plugins, folder);
  list_gears(root.table("gears"), gears);
  for (const auto& [name, task] : tasks) list_task(root.table("task").table(name), task);
  for (const model::Record& record : models) {
    list_model(root.table("model").table(record.name + "@" + record.version), record, folder);
  }
  return all;
}

}  // namespace gearbox::config
