// config check, config show and config diff.
#include "cli/commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "central/accounts_database.hpp"
#include "cli/check_plugins.hpp"
#include "cli/json_facts.hpp"
#include "cli/log_to_stderr.hpp"
#include "cli/running_config.hpp"
#include "cli/table.hpp"
#include "config/unserved.hpp"
#include "config/values_of.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

json::array faults_of(const Outcome<config::Snapshot>& config) {
  json::array faults;
  if (config) return faults;
  std::string_view rest = config.error().detail;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    faults.emplace_back(json::string_view(rest.substr(0, end).data(), rest.substr(0, end).size()));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return faults;
}

/// What is allowed, and still most likely not what is meant.
std::vector<std::string> warnings_of(const config::Config& config) {
  std::vector<std::string> warnings;
  for (const config::Unserved& unserved : config::unserved_of(config)) {
    warnings.push_back("task '" + unserved.task + "' cannot run here: " + unserved.reason);
  }
  const central::AccountsPlace accounts = central::accounts_place({}, config.central);
  if (config.central.enabled && accounts.is_shared()) {
    const Outcome<std::string> seen = central::look_at_accounts_database(accounts);
    if (!seen) warnings.push_back("central.database cannot be used now: " + seen.error().detail);
  }
  return warnings;
}

void run_check(CliContext& context) {
  log_to_stderr();
  Outcome<config::Snapshot> config = load_config(context);
  if (config) {
    if (const auto plugins = check_plugins(*config.value()); !plugins) config = plugins.error();
  }
  const std::vector<std::string> warnings = config ? warnings_of(*config.value()) : std::vector<std::string>();
  if (context.json) {
    const json::object out{{"ok", config.has_value()},
                           {"digest", config ? json::value(config.value()->digest) : json::value(nullptr)},
                           {"faults", faults_of(config)},
                           {"warnings", json::array(warnings.begin(), warnings.end())}};
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
  for (const std::string& warning : warnings) std::printf("warning: %s\n", warning.c_str());
}

void nothing_runs(CliContext& context, const config::StateDir& state) {
  std::fprintf(stderr, "broker: nothing runs on the state folder %s; start it with `broker up`\n", state.root.c_str());
  context.exit_code = kFailed;
}

bool runs(const RoleConfig& role) {
  return role.running.has_value() || role.running.error().code != Errc::unreachable;
}

void show_folder(CliContext& context) {
  const Outcome<config::Snapshot> config = load_config(context);
  if (!config) return fail(context, config.error());
  const std::vector<config::Value> values = config::values_of(*config.value());
  if (context.json) {
    json::object facts = nested(values);
    facts["folder"] = config.value()->folder.string();
    facts["digest"] = config.value()->digest;
    return print_json(facts);
  }
  Table table({"key", "value"});
  for (const config::Value& value : values) table.add({escaped(value.key), escaped(value.value)});
  print(table.text(colour_wanted()));
}

/// The keys of all roles, in the first one's order; one column when all have the same in force.
Table values_table(const std::vector<RoleConfig>& roles) {
  std::vector<const RunningConfig*> columns;
  std::vector<std::string> titles{"key"};
  for (const RoleConfig& role : roles) {
    if (!role.running) continue;
    const RunningConfig& running = role.running.value();
    const bool same = !columns.empty() && columns.front()->digest == running.digest;
    if (same) continue;
    columns.push_back(&running);
    titles.push_back(role.role);
  }
  if (columns.size() == 1) titles.back() = "value";
  Table table(titles);
  std::vector<std::string> keys;
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const config::Value& value : columns[i]->values) {
      const auto [row, is_new] = rows.try_emplace(value.key, columns.size());
      if (is_new) keys.push_back(value.key);
      row->second[i] = escaped(value.value);
    }
  }
  for (const std::string& key : keys) {
    std::vector<std::string> cells{escaped(key)};
    for (const std::string& cell : rows[key]) cells.push_back(cell);
    table.add(std::move(cells));
  }
  return table;
}

void show_running(CliContext& context) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const std::vector<RoleConfig> roles = ask_roles(state.value());
  const bool any = std::any_of(roles.begin(), roles.end(), runs);
  if (context.json) {
    json::object out;
    for (const RoleConfig& role : roles) {
      out[role.role] = role.running ? json::value(json_of(role.running.value())) : json::value(nullptr);
    }
    print_json(out);
    if (!any) context.exit_code = kFailed;
    return;
  }
  if (!any) return nothing_runs(context, state.value());
  for (const RoleConfig& role : roles) {
    if (role.running) {
      std::printf("%s: digest %s, from %s\n", role.role.c_str(), escaped(role.running.value().digest).c_str(),
                  escaped(role.running.value().folder).c_str());
    } else if (runs(role)) {
      std::printf("%s: no answer: %s\n", role.role.c_str(), escaped(describe(role.running.error())).c_str());
      context.exit_code = kFailed;
    } else {
      std::printf("%s: not running\n", role.role.c_str());
    }
  }
  const Table table = values_table(roles);
  if (!table.empty()) print("\n" + table.text(colour_wanted()));
}

void run_diff(CliContext& context) {
  const Outcome<config::Snapshot> config = load_config(context);
  if (!config && context.json) {
    const json::object out{{"ok", false}, {"digest", nullptr}, {"faults", faults_of(config)}};
    print_json(out);
    context.exit_code = kUsage;
    return;
  }
  if (!config) return fail(context, config.error());
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const std::vector<RoleConfig> roles = ask_roles(state.value());
  const std::vector<RoleDiff> diffs = diff_of(*config.value(), roles);
  const bool agree = all_agree(diffs);
  if (!agree) context.exit_code = kFailed;
  if (context.json) {
    const json::object out{{"ok", agree}, {"digest", config.value()->digest}, {"roles", json_of(diffs)}};
    return print_json(out);
  }
  if (std::none_of(roles.begin(), roles.end(), runs)) return nothing_runs(context, state.value());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  print(text_of(diffs, static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(now).count())));
}

}  // namespace

void add_config_commands(CLI::App& app, CliContext& context) {
  CLI::App* group = app.add_subcommand("config", "check the configuration, show it, or hold it against what runs");
  group->require_subcommand(1);
  group->footer("Example:\n  broker config check --config configs");
  add_command(*group, context, "check", "read everything and name each fault with file, line and column",
              "broker config check --config configs", true)
      ->callback([&context] { run_check(context); });
  CLI::App* show = add_command(*group, context, "show", "every value in the folder, defaults included",
                               "broker config show --config configs --json\n  broker config show --running", true);
  const auto running = std::make_shared<bool>(false);
  show->add_flag("--running", *running, "what central and node have in force, asked of them; --config is not read");
  show->callback([&context, running] { *running ? show_running(context) : show_folder(context); });
  CLI::App* diff = add_command(
      *group, context, "diff",
      "the folder against what the running roles have in force: key by key, and why a change was refused", "", true);
  diff->footer(
      "Example:\n  broker config diff --config configs\n"
      "Exit codes: 0 each role that runs has the folder in force, 1 one of them differs or refused it or none runs,\n"
      "2 wrong usage, or the folder is not valid.");
  diff->callback([&context] { run_diff(context); });
}

}  // namespace gearbox::cli
