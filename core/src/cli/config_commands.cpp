// config check and config show.
#include "cli/commands.hpp"

#include <cstdio>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

void run_check(CliContext& context) {
  const Outcome<config::Snapshot> config = load_config(context);
  if (context.json) {
    json::array faults;
    if (!config) {
      std::string_view rest = config.error().detail;
      while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        faults.emplace_back(json::string_view(rest.substr(0, end).data(), rest.substr(0, end).size()));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      }
    }
    const json::object out{{"ok", config.has_value()},
                           {"digest", config ? json::value(config.value()->digest) : json::value(nullptr)},
                           {"faults", std::move(faults)}};
    print_json(out);
    if (!config) context.exit_code = kUsage;
    return;
  }
  if (!config) return fail(context, config.error());
  const auto counted = [](std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  std::printf("%s is valid: %s, %s, %s (digest %s)\n", config.value()->folder.c_str(),
              counted(config.value()->tasks.size(), "task").c_str(),
              counted(config.value()->models.size(), "model").c_str(),
              counted(config.value()->workers.size(), "[[worker]] table").c_str(), config.value()->digest.c_str());
}

json::object facts_of(const config::Config& config) {
  json::object central{{"enabled", config.central.enabled},
                       {"listen", config.central.listen},
                       {"balancer", config.central.balancer},
                       {"node_silent_ms", config.central.node_silent.count()},
                       {"ticket_ttl_ms", config.central.ticket_ttl.count()},
                       {"idle_ms", config.central.idle.count()},
                       {"max_connections", config.central.max_connections},
                       {"password_checks_at_once", config.central.password_checks_at_once},
                       {"password_tries_per_minute", config.central.password_tries_per_minute}};
  const config::LimitsConfig& limits = config.node.limits;
  json::object limits_json{{"max_upload_mb", limits.max_upload_bytes >> 20},
                           {"max_pixels", limits.max_pixels},
                           {"input_arena_mb", limits.input_arena_bytes >> 20},
                           {"output_arena_mb", limits.output_arena_bytes >> 20},
                           {"max_connections", limits.max_connections},
                           {"max_requests", limits.max_requests},
                           {"max_requests_per_device", limits.max_requests_per_device},
                           {"max_uploads_at_once", limits.max_uploads_at_once},
                           {"default_deadline_ms", limits.default_deadline.count()},
                           {"idle_ms", limits.idle.count()}};
  json::object store{{"enabled", config.node.store.enabled},
                     {"keep_inputs", config.node.store.keep_inputs},
                     {"keep_hours", config.node.store.keep_hours},
                     {"max_mb", config.node.store.max_bytes >> 20}};
  json::object node{
      {"enabled", config.node.enabled},     {"name", config.node.name},         {"listen", config.node.listen},
      {"advertise", config.node.advertise}, {"central", config.node.central},   {"balancer", config.node.balancer},
      {"spin_us", config.node.spin_us},     {"limits", std::move(limits_json)}, {"store", std::move(store)}};
  json::array workers;
  for (const config::WorkerConfig& worker : config.workers) {
    json::object each{{"model", worker.model},
                      {"version", worker.version},
                      {"env", worker.env},
                      {"count", worker.count},
                      {"devices", worker.devices}};
    workers.push_back(std::move(each));
  }
  json::array tasks;
  for (const auto& [name, task] : config.tasks) {
    json::array steps;
    for (const config::StepConfig& step : task.steps) {
      json::object each{
          {"name", step.name}, {"model", step.model}, {"version", step.version}, {"for_each", step.for_each}};
      steps.push_back(std::move(each));
    }
    json::object each{
        {"name", name}, {"summary", task.summary}, {"allow_lossy", task.allow_lossy}, {"steps", std::move(steps)}};
    tasks.push_back(std::move(each));
  }
  json::array models;
  for (const model::Record& record : config.models) {
    json::object each{{"name", record.name},
                      {"version", record.version},
                      {"framework", record.framework},
                      {"summary", record.summary},
                      {"folder", record.folder.string()}};
    models.push_back(std::move(each));
  }
  return json::object{{"folder", config.folder.string()}, {"digest", config.digest},
                      {"central", std::move(central)},    {"node", std::move(node)},
                      {"workers", std::move(workers)},    {"tasks", std::move(tasks)},
                      {"models", std::move(models)}};
}

std::string plain(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_bool()) return value.get_bool() ? "true" : "false";
  if (value.is_int64()) return std::to_string(value.get_int64());
  if (value.is_uint64()) return std::to_string(value.get_uint64());
  return {};
}

void add_rows(Table& table, const std::string& prefix, const json::object& object) {
  for (const auto& member : object) {
    const std::string key = prefix.empty() ? std::string(member.key()) : prefix + "." + std::string(member.key());
    if (member.value().is_object()) {
      add_rows(table, key, member.value().get_object());
    } else if (member.value().is_array()) {
      std::size_t at = 0;
      for (const json::value& each : member.value().get_array()) {
        if (each.is_object()) add_rows(table, key + "[" + std::to_string(at++) + "]", each.get_object());
      }
    } else {
      table.add({key, plain(member.value())});
    }
  }
}

void run_show(CliContext& context) {
  const Outcome<config::Snapshot> config = load_config(context);
  if (!config) return fail(context, config.error());
  const json::object facts = facts_of(*config.value());
  if (context.json) return print_json(facts);
  Table table({"key", "value"});
  add_rows(table, "", facts);
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_config_commands(CLI::App& app, CliContext& context) {
  CLI::App* group = app.add_subcommand("config", "check or show the configuration");
  group->require_subcommand(1);
  group->footer("Example:\n  broker config check --config configs");
  add_command(*group, context, "check", "read everything and name each fault with file, line and column",
              "broker config check --config configs", true)
      ->callback([&context] { run_check(context); });
  add_command(*group, context, "show", "the values in force, defaults included",
              "broker config show --config configs --json", true)
      ->callback([&context] { run_show(context); });
}

}  // namespace gearbox::cli
