#include <algorithm>
#include <array>
#include <bit>

#include "config/central_places.hpp"
#include "config/pools.hpp"
#include "config/reading.hpp"
#include "config/values.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/shm/call_block.hpp"
#include "sql/connection_string.hpp"

namespace gearbox::config {

namespace {

constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kHourMs = 3'600'000;  // no request lives longer
constexpr std::int64_t kMaxMb = 1'048'576;   // 1 TiB
constexpr std::size_t kMaxWorkerTables = 256;
constexpr std::int64_t kMaxWorkersOfOneTable = 64;
constexpr std::uint64_t kMaxWorkers = 1024;  // of a node
constexpr std::size_t kMaxTrustedKeys = 64;
constexpr std::size_t kMaxCentrals = 8;

/// "sqlite", or where a PostgreSQL server is.
std::string read_database(const toml::Table& table, const std::string& fallback) {
  std::string database = table.text("database", fallback);
  if (database == "sqlite") return database;
  if (const Outcome<void> good = sql::check_connection_string(database); !good) {
    table.fault("database", good.error().detail);
  }
  return database;
}

void read_central(const toml::Table& table, CentralConfig& central) {
  central.enabled = table.boolean("enabled", central.enabled);
  central.listen = read_url(table, "listen", central.listen, UrlUse::listen);
  central.database = read_database(table, central.database);
  central.balancer = table.name("balancer", central.balancer);
  central.node_silent = read_ms(table, "node_silent_ms", central.node_silent, 1000, 600'000);
  central.ticket_ttl = read_ms(table, "ticket_ttl_ms", central.ticket_ttl, 1000, kDayMs);
  central.idle = read_ms(table, "idle_ms", central.idle, 100, kDayMs);
  central.max_connections = read_count(table, "max_connections", central.max_connections, 1, 1'000'000);
  central.password_checks_at_once =
      read_count(table, "password_checks_at_once", central.password_checks_at_once, 1, 64);
  central.password_tries_per_minute =
      read_count(table, "password_tries_per_minute", central.password_tries_per_minute, 1, 10'000);
}

void read_limits(const toml::Table& table, LimitsConfig& limits) {
  limits.max_upload_bytes = read_mb(table, "max_upload_mb", limits.max_upload_bytes, 1, 65'536);
  limits.max_pixels = static_cast<std::uint64_t>(
      table.integer("max_pixels", static_cast<std::int64_t>(limits.max_pixels), 1, 10'000'000'000));
  limits.input_arena_bytes = read_mb(table, "input_arena_mb", limits.input_arena_bytes, 1, kMaxMb);
  limits.output_arena_bytes = read_mb(table, "output_arena_mb", limits.output_arena_bytes, 1, kMaxMb);
  limits.max_connections = read_count(table, "max_connections", limits.max_connections, 1, 1'000'000);
  limits.max_requests = read_count(table, "max_requests", limits.max_requests, 1, 1'000'000);
  limits.max_requests_per_device =
      read_count(table, "max_requests_per_device", limits.max_requests_per_device, 1, 1'000'000);
  limits.max_requests_per_tenant =
      read_count(table, "max_requests_per_tenant", limits.max_requests_per_tenant, 0, 1'000'000);
  limits.max_tenant_bytes = read_mb(table, "max_tenant_mb", limits.max_tenant_bytes, 0, kMaxMb);
  limits.max_uploads_at_once = read_count(table, "max_uploads_at_once", limits.max_uploads_at_once, 1, 100'000);
  limits.default_deadline = read_ms(table, "default_deadline_ms", limits.default_deadline, 1, kHourMs);
  limits.idle = read_ms(table, "idle_ms", limits.idle, 100, kDayMs);
  // A picture lies there twice for a while: as it was uploaded and as it is decoded.
  if (limits.max_upload_bytes > limits.input_arena_bytes / 2) {
    table.fault(table.has("max_upload_mb") ? "max_upload_mb" : "input_arena_mb",
                "max_upload_mb (" + std::to_string(limits.max_upload_bytes >> 20) +
                    ") may be half of input_arena_mb (" + std::to_string(limits.input_arena_bytes >> 20) + ") at most");
  }
}

void read_store(const toml::Table& table, StoreConfig& store) {
  store.enabled = table.boolean("enabled", store.enabled);
  store.keep_inputs = table.boolean("keep_inputs", store.keep_inputs);
  store.keep_hours = read_count(table, "keep_hours", store.keep_hours, 1, 24 * 3660);
  store.max_bytes = read_mb(table, "max_mb", store.max_bytes, 1, kMaxMb);
}

void read_journal(const toml::Table& table, JournalConfig& journal) {
  journal.level = table.text("level", journal.level, 16);
  if (journal.level != "none" && journal.level != "batch" && journal.level != "always") {
    table.fault("level", "expected \"none\", \"batch\" or \"always\"");
  }
  journal.max_bytes = read_mb(table, "max_mb", journal.max_bytes, 16, kMaxMb);
  journal.keep_hours = read_count(table, "keep_hours", journal.keep_hours, 1, 24 * 366);
}

std::vector<std::string> text_or_texts(const toml::Table& table, std::string_view key, std::size_t max_bytes) {
  if (table.has(key) && !table.is_text(key)) {
    auto texts = table.texts(key, kMaxCentrals, max_bytes);
    if (texts && texts->empty()) table.fault(key, "is empty: leave the line out for this host's own central");
    return texts ? std::move(*texts) : std::vector<std::string>();
  }
  const std::string text = table.text(key, "", max_bytes);
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}

/// `central` and `central_key`: one of each, or an array of addresses with one key for all or one for each.
void read_centrals(const toml::Table& table, NodeConfig& node) {
  const std::vector<std::string> urls = text_or_texts(table, "central", 300);
  const std::vector<std::string> keys = text_or_texts(table, "central_key", 64);
  for (const std::string& url : urls) {
    if (const std::string wrong = url_fault(url, UrlUse::dial); !wrong.empty()) {
      table.fault("central", "'" + url + "' " + wrong);
    }
  }
  for (const std::string& text : keys) {
    if (PublicKey key; !from_hex(text, key.bytes)) table.fault("central_key", "expected 64 hexadecimal digits");
  }
  if (keys.size() > 1 && keys.size() != urls.size()) {
    table.fault("central_key", "expected one key for all addresses of `central`, or as many keys as addresses");
    return;
  }
  if (urls.size() > 1 && keys.empty()) {
    table.fault("central", "several addresses are of other hosts: add central_key");
    return;
  }
  for (const std::string& url : urls) node.central += (node.central.empty() ? "" : kBetweenCentrals) + url;
  for (const std::string& key : keys) node.central_key += (node.central_key.empty() ? "" : kBetweenCentrals) + key;
}

void read_node(const toml::Table& table, NodeConfig& node) {
  node.enabled = table.boolean("enabled", node.enabled);
  node.name = table.name("name", node.name);
  node.listen = read_url(table, "listen", node.listen, UrlUse::listen);
  node.advertise = read_url(table, "advertise", "", UrlUse::dial);
  if (node.enabled && node.advertise.empty() && is_wildcard(node.listen)) {
    const std::string port = node.listen.substr(node.listen.rfind(':') + 1);
    table.fault("listen", "'" + node.listen + "' is every address of this host, and no device can dial that: add " +
                              "advertise = \"tcp://HOST:" + (port == "0" ? "PORT" : port) +
                              "\" with the name or address by which devices reach this host");
  }
  read_centrals(table, node);
  node.balancer = table.name("balancer", node.balancer);
  node.spin_us = read_count(table, "spin_us", node.spin_us, 0, 10'000);
  node.explain_requests = read_count(table, "explain_requests", node.explain_requests, 0, 65'536);
  node.recorded_requests = read_count(table, "recorded_requests", node.recorded_requests, 0, 1'000'000);
  node.recorded_payload_bytes = read_mb(table, "recorded_payload_mb", node.recorded_payload_bytes, 0, kMaxMb);
  node.drain = read_ms(table, "drain_ms", node.drain, 0, kDayMs);
  node.reattach = read_ms(table, "reattach_ms", node.reattach, 0, 60'000);
  if (const auto limits = table.table("limits")) read_limits(*limits, node.limits);
  if (const auto store = table.table("store")) read_store(*store, node.store);
  if (const auto journal = table.table("journal")) read_journal(*journal, node.journal);
  read_sinks(table, node.sinks);
}

void read_envs(const toml::Table& table, std::map<std::string, EnvConfig>& envs) {
  for (const std::string& name : table.keys()) {
    const auto env_table = table.table(name);
    if (!env_table) continue;
    if (!is_name(name))
      env_table->fault("", "is no name: 1 to 64 of A-Z a-z 0-9 . _ - are allowed, a letter or digit first");
    EnvConfig env;
    if (env_table->require("python")) {
      env.python = env_table->text("python", "", 4096);
      if (env.python.empty()) env_table->fault("python", "expected the path of a python executable");
    }
    envs.emplace(name, std::move(env));
  }
}

/// What the worker pool takes of an output arena for outputs of `bytes`: the block in front, each tensor's alignment,
/// rounded up to one of eight sizes per doubling (worker_pool/slab_allocator.cpp).
std::uint64_t grant_bytes(std::uint64_t bytes) {
  const std::uint64_t grant = shm::grant_for(bytes);
  const std::uint64_t step = std::max<std::uint64_t>(shm::kTensorAlign, std::bit_floor(grant - 1) / 8);
  return (grant + step - 1) / step * step;
}

/// One grant of the model's must fit into a worker's output arena, else no call could ever be made.
void check_grant(const toml::Table& table, const WorkerConfig& worker, const Config& config) {
  for (const model::Record& record : config.models) {
    if (record.name != worker.model || (!worker.version.empty() && record.version != worker.version)) continue;
    if (grant_bytes(record.max_output_bytes) > config.node.limits.output_arena_bytes) {
      table.fault("model", "max_output_kb of " + record.name + " " + record.version + " (" +
                               std::to_string(record.max_output_bytes >> 10) +
                               ") does not fit into node.limits.output_arena_mb (" +
                               std::to_string(config.node.limits.output_arena_bytes >> 20) + ")");
    }
  }
}

void check_model(const toml::Table& table, const WorkerConfig& worker, const Config& config) {
  std::vector<std::string> names;
  std::vector<std::string> versions;
  for (const model::Record& record : config.models) {
    names.push_back(record.name);
    if (record.name == worker.model) versions.push_back(record.version);
  }
  if (worker.model.empty()) return;  // told already
  if (versions.empty()) {
    const std::string_view near = nearest(worker.model, names);
    table.fault("model", "no folder in models/ has a model called '" + worker.model + "'" +
                             (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
  } else if (!worker.version.empty() && std::find(versions.begin(), versions.end(), worker.version) == versions.end()) {
    std::string there;
    for (const std::string& version : versions) there += (there.empty() ? "" : ", ") + version;
    table.fault("version", "model '" + worker.model + "' has no version '" + worker.version + "'; there is " + there);
  }
}

void check_pool(const toml::Table& table, const WorkerConfig& worker, const Config& config) {
  if (worker.pool.empty() || find_pool(config.gears, worker.pool) != nullptr) return;
  std::vector<std::string> names;
  for (const PoolConfig& pool : config.gears.pools) names.push_back(pool.name);
  const std::string_view near = nearest(worker.pool, names);
  table.fault("pool", "there is no [[gears.pool]] called '" + worker.pool + "'" +
                          (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
}

/// Else what belongs to no pool would wait for workers that never take it.
void check_left_over(const toml::Table& root, const Config& config) {
  std::map<std::string, bool> serves_all;  // by model
  for (const WorkerConfig& worker : config.workers) {
    if (worker.count == 0) continue;
    const PoolConfig* const pool = find_pool(config.gears, worker.pool);
    const bool keeps = pool != nullptr && classes_requests(*pool) && pool->lends_percent == 0;
    serves_all[worker.model] |= !keeps;
  }
  for (const auto& [model, serves] : serves_all) {
    if (serves) continue;
    root.fault("worker", "all workers of model '" + model +
                             "' are in pools that lend nothing: requests of no pool would wait for ever; give one no " +
                             "pool, or a lends_percent above 0");
  }
}

void read_workers(const toml::Table& root, Config& config) {
  std::vector<std::string> env_names;
  for (const auto& [name, env] : config.envs) env_names.push_back(name);
  std::uint64_t all = 0;
  for (const toml::Table& table : root.tables("worker", kMaxWorkerTables)) {
    WorkerConfig worker;
    if (table.require("model")) worker.model = table.name("model", "");
    worker.version = table.name("version", "");
    if (table.require("env")) worker.env = table.name("env", "");
    worker.count = read_count(table, "count", worker.count, 0, kMaxWorkersOfOneTable);
    worker.devices = read_devices(table, "devices");
    worker.memory_limit_bytes = read_mb(table, "memory_limit_mb", 0, 0, kMaxMb);
    worker.pool = table.name("pool", "");
    check_pool(table, worker, config);
    check_model(table, worker, config);
    check_grant(table, worker, config);
    if (!worker.env.empty() && !config.envs.contains(worker.env)) {
      const std::string_view near = nearest(worker.env, env_names);
      table.fault("env", "there is no [env." + worker.env + "]" +
                             (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
    }
    const bool fitted = all <= kMaxWorkers;
    all += worker.count;
    if (fitted && all > kMaxWorkers) {
      table.fault("count", "a node has " + std::to_string(kMaxWorkers) +
                               " workers at most; with this table it would be " + std::to_string(all));
    }
    config.workers.push_back(std::move(worker));
  }
  check_left_over(root, config);
}

constexpr std::array<std::string_view, 12> kPluginKeys = {
    "folder",     "trusted_keys", "fault_limit", "call_budget_ms",         "hang_ms",      "gate",
    "gate_trace", "gate_cluster", "gate_model",  "gate_tolerance_percent", "gate_limit_s", "gate_least_requests"};

std::string unknown_plugin_key(const std::string& key) {
  const std::vector<std::string> names(kPluginKeys.begin(), kPluginKeys.end());
  const std::string_view near = nearest(key, names);
  if (!near.empty()) return "unknown key; did you mean '" + std::string(near) + "'?";
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return "unknown key; [plugins] has " + all + " and one table for each plugin";
}

void read_trusted_keys(const toml::Table& table, std::vector<PublicKey>& keys) {
  const auto texts = table.texts("trusted_keys", kMaxTrustedKeys, 64);
  if (!texts) return;
  // No key at all would mean "no signature is asked for", the opposite of what such a line looks like.
  if (texts->empty()) table.fault("trusted_keys", "is empty: leave the line out to take libraries without a signature");
  for (const std::string& text : *texts) {
    PublicKey key;
    if (from_hex(text, key.bytes)) {
      keys.push_back(key);
    } else {
      table.fault("trusted_keys",
                  "entry " + std::to_string(&text - texts->data() + 1) + ": expected 64 hexadecimal digits");
    }
  }
}

/// The file that `text` names, from the configuration's folder on; a fault when there is none.
std::filesystem::path read_file_name(const toml::Table& table, std::string_view key, const std::string& text,
                                     const Config& config) {
  const std::filesystem::path path = (config.folder / text).lexically_normal();
  std::error_code ignored;  // what cannot be looked at is no file for us
  if (!std::filesystem::is_regular_file(path, ignored)) table.fault(key, "there is no file " + path.string());
  return path;
}

void read_gate(const toml::Table& table, const Config& config, GateConfig& gate) {
  constexpr std::size_t kMaxModels = 16;
  constexpr std::size_t kMaxPath = 4096;
  gate.on = table.boolean("gate", gate.on);
  gate.trace = table.text("gate_trace", "", kMaxPath);
  if (!gate.trace.empty() && !gate.trace.starts_with("make:"))
    gate.trace = read_file_name(table, "gate_trace", gate.trace, config).string();
  const std::string cluster = table.text("gate_cluster", "", kMaxPath);
  if (!cluster.empty()) gate.cluster = read_file_name(table, "gate_cluster", cluster, config);
  std::vector<std::string> models;
  if (table.has("gate_model") && !table.is_text("gate_model")) {
    if (auto texts = table.texts("gate_model", kMaxModels, kMaxPath)) models = std::move(*texts);
  } else {
    models.push_back(table.text("gate_model", "", kMaxPath));
  }
  for (const std::string& model : models) {
    if (!model.empty()) gate.models.push_back(read_file_name(table, "gate_model", model, config));
  }
  gate.tolerance_percent = table.number("gate_tolerance_percent", gate.tolerance_percent, 0, 1000);
  gate.limit = std::chrono::seconds(table.integer("gate_limit_s", gate.limit.count(), 1, 3600));
  gate.least_requests = read_count(table, "gate_least_requests", gate.least_requests, 1, 1'000'000);
  if (!gate.on) return;
  if (gate.cluster.empty())
    table.fault("gate", "needs gate_cluster, the cluster that is simulated: a TOML file, see docs/replay.md");
  if (gate.models.empty())
    table.fault("gate", "needs gate_model, the model that is simulated: a TOML file, see docs/replay.md");
}

void read_plugins(const toml::Table& table, Config& config) {
  const std::string folder = table.text("folder", "", 4096);
  // An absolute path replaces the config folder; one form of a path, so that another spelling is no change.
  if (!folder.empty()) config.plugins.folder = (config.folder / folder / ".").lexically_normal().parent_path();
  read_trusted_keys(table, config.plugins.trusted_keys);
  config.plugins.fault_limit = read_count(table, "fault_limit", config.plugins.fault_limit, 1, 1'000'000);
  config.plugins.call_budget = read_ms(table, "call_budget_ms", config.plugins.call_budget, 1, 60'000);
  config.plugins.hang = read_ms(table, "hang_ms", config.plugins.hang, 100, kHourMs);
  read_gate(table, config, config.plugins.gate);
  for (const std::string& name : table.keys()) {
    if (std::find(kPluginKeys.begin(), kPluginKeys.end(), name) != kPluginKeys.end()) continue;
    if (!is_name(name) || !table.is_table(name)) {
      table.has(name);  // known: this fault says it all
      table.fault(name, table.is_table(name) ? "is no name of a plugin" : unknown_plugin_key(name));
      continue;
    }
    const auto options = table.table(name);
    auto& values = config.plugins.options[name];
    for (const std::string& key : options->keys()) {
      if (const auto value = options->scalar(key)) values.emplace(key, *value);
    }
  }
}

/// What a swap of plugins would touch, and the rules under which it is replayed.
void note_uses(Config& config) {
  GateConfig& gate = config.plugins.gate;
  if (config.node.enabled) gate.uses.push_back({"balancer", config.node.balancer, "node.balancer"});
  if (config.central.enabled) gate.uses.push_back({"balancer", config.central.balancer, "central.balancer"});
  if (config.gears.enabled) gate.uses.push_back({"gear", config.gears.policy, "gears.policy"});
  gate.rules = config.gears;
}

}  // namespace

void read_main(const toml::Document& document, Config& config) {
  const toml::Table root = document.root();
  if (const auto central = root.table("central")) read_central(*central, config.central);
  if (const auto node = root.table("node")) read_node(*node, config.node);
  if (const auto envs = root.table("env")) read_envs(*envs, config.envs);
  if (const auto gears = root.table("gears")) read_gears(*gears, config.gears);
  read_workers(root, config);
  if (const auto plugins = root.table("plugins")) read_plugins(*plugins, config);
  note_uses(config);
  document.report_unknown_keys();
}

}  // namespace gearbox::config
