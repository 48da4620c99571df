// config.hpp: what the TOML files of one folder say, read whole and checked; an immutable snapshot.
//
//   gearbox.toml           central, node, workers, environments, plugins
//   tasks/NAME.toml        one task each
//   models/*/model.toml    one model version each (see model/record.hpp)
//   plugins/               the drop folder
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/model/record.hpp"

namespace gearbox::config {

using OptionValue = std::variant<std::int64_t, double, bool, std::string>;

struct CentralConfig {  // [central]
  bool enabled = true;  // does `broker up` start one here?
  std::string listen = "tcp://127.0.0.1:7600";
  std::string database = "sqlite";  // of the accounts; else libpq's words or URL, without a password
  std::string balancer = "least_loaded";
  milliseconds node_silent{3000};   // node_silent_ms: a node that says nothing for so long is not offered
  milliseconds ticket_ttl{300000};  // ticket_ttl_ms
  milliseconds idle{30000};         // idle_ms: a device that says nothing for so long is closed
  std::uint32_t max_connections = 4096;
  std::uint32_t password_checks_at_once = 2;     // Argon2id: 64 MiB each
  std::uint32_t password_tries_per_minute = 10;  // per address
};

struct LimitsConfig {                              // [node.limits]
  std::uint64_t max_upload_bytes = 64ULL << 20;    // max_upload_mb: wire bytes and plain bytes of one request
  std::uint64_t max_pixels = 100'000'000;          // of a JPEG or PNG, from its header
  std::uint64_t input_arena_bytes = 256ULL << 20;  // input_arena_mb
  std::uint64_t output_arena_bytes = 64ULL << 20;  // output_arena_mb, per worker
  std::uint32_t max_connections = 19000;
  std::uint32_t max_requests = 4096;  // open ones, all devices together
  std::uint32_t max_requests_per_device = 64;
  std::uint32_t max_requests_per_tenant = 2048;    // open ones of all its devices; 0: no limit of its own
  std::uint64_t max_tenant_bytes = 1024ULL << 20;  // max_tenant_mb: inputs of its open requests, decoded; 0: as above
  std::uint32_t max_uploads_at_once = 64;          // more wait in the announced state
  milliseconds default_deadline{60000};            // default_deadline_ms: for requests without one
  milliseconds idle{60000};                        // idle_ms: a silent device connection is pinged, then closed
};

struct StoreConfig {  // [node.store]
  bool enabled = true;
  bool keep_inputs = true;
  std::uint32_t keep_hours = 24 * 7;
  std::uint64_t max_bytes = 1ULL << 30;  // max_mb
};

struct JournalConfig {                   // [node.journal]
  std::string level = "batch";           // none, batch, always: what has to be on disk before a request is acknowledged
  std::uint64_t max_bytes = 1ULL << 30;  // max_mb
  std::uint32_t keep_hours = 24;         // answers that wait for a device which went away
};

struct SinkConfig {  // [[node.sinks]]
  std::string name;  // a folder of the state folder has this name, too
  std::string plugin = "sqlite";
  std::vector<std::string> tasks;              // whose events it gets; empty: all
  std::uint32_t max_events = 100'000;          // that wait for it; more go into its dead-letter file
  std::uint64_t max_bytes = 256ULL << 20;      // max_mb: likewise
  std::uint32_t batch = 64;                    // events of one delivery, at most
  milliseconds timeout{10'000};                // timeout_ms: of one delivery
  milliseconds retry_max{60'000};              // retry_max_ms: the longest pause between two tries
  std::uint64_t dead_letter_bytes = 16 << 20;  // dead_letter_mb: the file and the one before it, together
  std::map<std::string, OptionValue> options;  // [node.sinks.options]: the plugin's, of this sink alone
};

struct NodeConfig {  // [node]
  bool enabled = true;
  std::string name = "node-1";
  std::string listen = "tcp://127.0.0.1:7601";
  std::string advertise;     // URL told to devices; empty: the real listening one
  std::string central = "";  // URLs, ", " between; empty: this host's
  std::string central_key;   // X25519 public key, hex: one, or one for each URL; empty: this host's
  std::string balancer = "least_loaded";
  std::uint32_t spin_us = 20;                // how long a reader polls its ring before it sleeps; 0 allowed
  std::uint32_t explain_requests = 1024;     // remembered for `broker explain`; 0: none
  std::uint32_t recorded_requests = 65'536;  // kept for `broker replay record`; 0: none
  std::uint64_t recorded_payload_bytes = 0;  // recorded_payload_mb: of those requests' payloads; 0: none is kept
  milliseconds drain{10000};                 // drain_ms: what runs when a stop is asked for has so long to end
  milliseconds reattach{5000};  // reattach_ms: workers outlive the node for so long, to serve the next; 0: no
  LimitsConfig limits;
  StoreConfig store;
  JournalConfig journal;
  std::vector<SinkConfig> sinks;
};

struct WorkerConfig {                    // [[worker]]
  std::string model;                     // a record's name
  std::string version;                   // empty: each version found
  std::string env;                       // [env.NAME]
  std::uint32_t count = 1;               // 0 to 64
  std::string devices;                   // "", "cpu", "cuda:0", "cuda" (the node chooses)
  std::uint64_t memory_limit_bytes = 0;  // what each may use for itself; 0: no limit
  std::string pool;                      // a [[gears.pool]]: its requests go here first; empty: none
};

struct EnvConfig {     // [env.NAME]
  std::string python;  // path of the environment's python; relative to the state folder's envs/, or absolute
};

/// A tensor by its source: "request.image", "detect.crops".
struct TensorSource {
  std::string step;  // "request", or a step that comes earlier
  std::string tensor;
};

struct StepConfig {  // [[step]]
  std::string name;
  std::string model;
  std::string version = "latest";              // exact, latest, or a range; see versions.hpp
  std::map<std::string, TensorSource> inputs;  // model's input ← source
  std::string for_each;       // name of the input that is scattered, one call per list item; empty: one call
  double deadline_share = 0;  // of the request's whole time, what one run of the step may take; 0: all there is
  std::uint32_t retry = 0;    // further attempts of a call that failed
};

struct TaskConfig {  // tasks/NAME.toml
  std::string name;
  std::string summary;
  std::vector<model::TensorDecl> inputs;  // what a device sends
  bool allow_lossy = false;
  std::vector<StepConfig> steps;               // in an order in which each source comes earlier
  std::map<std::string, TensorSource> result;  // name in the answer ← source
  milliseconds deadline{0};                    // deadline_ms: 0 = the node's default
};

struct PoolConfig {  // [[gears.pool]]
  std::string name;
  std::vector<std::string> models;    // whose groups belong to it; neither these nor `groups`: all that nobody names,
                                      // unless it classes requests: then those of its workers
  std::vector<std::uint32_t> gears;   // allowed ones, 1 to 6; empty: all
  std::vector<std::string> groups{};  // single ones that belong to it, by name; goes before models
  // Whose requests its workers serve first; without any of the three it classes none. All that are given must hold.
  std::vector<std::uint32_t> tenants{};
  std::uint64_t least_bytes = 0, most_bytes = 0;  // least_kb, most_kb: of a request's inputs; 0: no bound
  std::uint32_t lends_percent = 50;               // of its workers' places, to other requests while they are idle
};

struct LinksConfig {                       // [gears.links]
  std::string listen;                      // "HOST:PORT": here other hosts' probes are answered; empty: nowhere
  std::vector<std::string> peers;          // "HOST:PORT" of their observers; empty: no link is probed
  milliseconds ping{1000};                 // ping_ms: from one small probe of a peer to the next
  milliseconds burst_every{30'000};        // burst_every_ms: and from one of its bandwidth to the next
  std::uint64_t burst_bytes = 1ULL << 20;  // burst_kb: what one of these may send
};

struct GearsConfig {                     // [gears]
  bool enabled = false;                  // does `broker up` start observer, scheduler and executor here?
  std::string policy = "cost_model";     // a gear plugin
  std::string coordination = "central";  // who gives the lease to lead: central, or a coordination plugin
  std::string lease = "scheduler";       // its name: of the schedulers that ask for the same one, one leads
  std::vector<std::string> hosts;        // nodes whose groups are decided on here, too; this node's name is skipped
  std::vector<std::string> leaders;  // nodes whose schedulers may decide on groups here; empty: none of another host
  std::string mode = "normal";  // gentle, normal, aggressive: what the governor's times and limits are unless given
  bool dry_run = false;         // decide and tell, shift nothing
  milliseconds interval{1000};  // interval_ms: from one snapshot, and one round of decisions, to the next
  // Each of these is the mode's unless the file gives it; here stand those of "normal".
  milliseconds dwell{90'000};             // dwell_ms: a group stays in a gear for so long
  milliseconds urgent_dwell{15'000};      // urgent_dwell_ms: when memory is short, or much is to be gained
  milliseconds reverse_cooldown{30'000};  // reverse_cooldown_ms: and not back to the gear before
  double least_gain = 0.04;               // share of the latency
  std::uint32_t at_once = 2;              // groups of a pool that shift at the same time
  std::uint32_t per_hour = 20;            // shifts of one group
  std::vector<std::string> hours;         // "22:00-06:00", local time: shifts happen only then; empty: always
  std::string card = "cpu";  // whose figures the price model takes: "cpu", "a100-80g", "v100-32g", "rtx3090"
  LinksConfig links;
  std::vector<PoolConfig> pools;
};

struct GateConfig {               // gate and gate_...: of [plugins]
  bool on = false;                // gate: a swap of a balancer or gear policy passes a replay first
  std::string trace;              // a recording's full path, or make:...; empty: what this host's node keeps
  std::filesystem::path cluster;  // what is simulated, as `broker replay` takes it
  std::vector<std::filesystem::path> models;
  double tolerance_percent = 5;
  std::chrono::seconds limit{60};      // gate_limit_s: of one replay
  std::uint32_t least_requests = 100;  // that the node must have kept, else there is nothing to judge by
  // Copied from elsewhere in the configuration: whoever has [plugins] alone can tell what a swap touches, and replay
  // it.
  struct Use {
    std::string kind, name;  // of a plugin
    std::string by;          // the key that names it: "node.balancer"
  };
  std::vector<Use> uses;  // what is gated; the first with a kind and name says which role judges
  GearsConfig rules;
};

struct PluginsConfig {                  // [plugins]
  std::filesystem::path folder;         // default: plugins/ in the config folder
  std::vector<PublicKey> trusted_keys;  // trusted_keys: set, each dropped library needs a signature by one of them
  std::uint32_t fault_limit = 10;       // throws, overruns and invalid answers within a minute; then the last good
                                        // build is put back
  milliseconds call_budget{100};        // call_budget_ms: a call of a balancer or codec that took longer is a fault
  milliseconds hang{10'000};            // hang_ms: a call that does not return ends the process, and bars the build
  GateConfig gate{};
  std::map<std::string, std::map<std::string, OptionValue>> options{};  // [plugins.NAME]: the plugin's own table
};

struct Config {
  std::filesystem::path folder;
  std::string digest;  // over all files read, hex
  CentralConfig central;
  NodeConfig node;
  std::vector<WorkerConfig> workers;
  std::map<std::string, EnvConfig> envs;
  std::map<std::string, TaskConfig> tasks;
  std::vector<model::Record> models;  // sorted by name, then version
  PluginsConfig plugins;
  GearsConfig gears;
};

using Snapshot = std::shared_ptr<const Config>;

/// Reads and checks everything in `folder`. Errors: bad_config; the detail has one line for each fault found:
/// "FILE:LINE:COLUMN: key: what is wrong (allowed range or nearest valid name)".
Outcome<Snapshot> load(const std::filesystem::path& folder);

/// The newest record of `model` (numeric, dotted comparison) among the versions that `asked` admits: "latest" or empty,
/// an exact version, or a range (see versions.hpp); nullptr when there is none.
const model::Record* find_model(const Config& config, std::string_view model, std::string_view asked);

}  // namespace gearbox::config
