#include <algorithm>

#include "config/reading.hpp"
#include "config/values.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::config {

namespace {

constexpr std::size_t kMaxSinks = 16;
constexpr std::size_t kMaxTasksNamed = 256;
constexpr std::size_t kMaxTaskBytes = 64;

void read_sink(const toml::Table& table, SinkConfig& sink) {
  sink.plugin = table.name("plugin", sink.plugin);
  if (const auto tasks = table.texts("tasks", kMaxTasksNamed, kMaxTaskBytes)) {
    if (tasks->empty()) table.fault("tasks", "is empty: leave the line out for all tasks");
    sink.tasks = *tasks;
  }
  sink.max_events = read_count(table, "max_events", sink.max_events, 1, 10'000'000);
  sink.max_bytes = read_mb(table, "max_mb", sink.max_bytes, 1, 1'048'576);
  sink.batch = read_count(table, "batch", sink.batch, 1, 1000);
  sink.timeout = read_ms(table, "timeout_ms", sink.timeout, 100, 60'000);
  sink.retry_max = read_ms(table, "retry_max_ms", sink.retry_max, 100, 3'600'000);
  sink.dead_letter_bytes = read_mb(table, "dead_letter_mb", sink.dead_letter_bytes, 1, 65'536);
  const auto options = table.table("options");
  if (!options) return;
  for (const std::string& key : options->keys()) {
    // Which there are, of which type and range, only the plugin can say: checked when its object is made.
    if (auto value = options->scalar(key)) sink.options.emplace(key, std::move(*value));
  }
}

}  // namespace

void read_sinks(const toml::Table& node, std::vector<SinkConfig>& sinks) {
  for (const toml::Table& table : node.tables("sinks", kMaxSinks)) {
    SinkConfig sink;
    if (table.require("name")) sink.name = table.name("name", "");
    const bool twin =
        std::any_of(sinks.begin(), sinks.end(), [&](const SinkConfig& other) { return other.name == sink.name; });
    if (twin && !sink.name.empty()) table.fault("name", "there is a sink called '" + sink.name + "' already");
    read_sink(table, sink);
    sinks.push_back(std::move(sink));
  }
}

void check_sinks(const toml::Document& document, const Config& config) {
  if (config.node.sinks.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, task] : config.tasks) names.push_back(name);
  const std::vector<toml::Table> tables = document.root().table("node")->tables("sinks", kMaxSinks);
  for (std::size_t i = 0; i < std::min(tables.size(), config.node.sinks.size()); ++i) {
    for (const std::string& task : config.node.sinks[i].tasks) {
      if (config.tasks.contains(task)) continue;
      const std::string_view near = nearest(task, names);
      tables[i].fault("tasks", "no file in tasks/ is called '" + escaped(task, kMaxTaskBytes) + ".toml'" +
                                   (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
    }
  }
}

}  // namespace gearbox::config
