// plugins list and plugins check; the others are in plugin_sign_command.cpp and plugin_book_commands.cpp.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <memory>
#include <vector>

#include "cli/json_facts.hpp"
#include "cli/plugin_commands.hpp"
#include "cli/plugin_rows.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/check_child.hpp"
#include "plugin_host/plugin_host.hpp"
#include "plugin_host/plugins_json.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

plugin_host::HostPaths paths_of(const config::Config& config, const config::StateDir& state) {
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.plugins.folder;
  paths.copies = state.plugin_copies();
  paths.checker = plugin_host::own_executable();
  return paths;
}

}  // namespace

Outcome<RolePlugins> at_next_start(const config::Config& config, const config::StateDir& state) {
  BOOST_OUTCOME_TRY(const auto host, plugin_host::PluginHost::open(paths_of(config, state), config.plugins));
  json::object status;
  status["plugins"] = plugin_host::plugins_json(host->list());
  RolePlugins found = read_plugins("", status);
  for (PluginRow& row : found.rows) {
    row.roles.clear();  // loaded by this command only to look at it
    row.since_unix_ms = 0;
  }
  return found;
}

namespace {

constexpr milliseconds kWait{3000};
constexpr std::size_t kShortChecksum = 12;  // hexadecimal digits

json::object facts_of(const plugin_host::PluginInfo& info) {
  json::object status;
  status["plugins"] = plugin_host::plugins_json({info});
  return to_json(read_plugins("", status).rows.at(0));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "fill=4": each option with its default.
std::string options_text(const PluginRow& row) {
  std::string text;
  for (const json::value& option : row.options) {
    if (!option.is_object()) continue;
    text +=
        (text.empty() ? "" : " ") + text_in(option.get_object(), "key") + "=" + text_in(option.get_object(), "default");
  }
  return text;
}

void print_rows(const std::vector<PluginRow>& rows, bool running) {
  Table table({"name", "kind", "version", "checksum", "state", "in", "since", ">calls", ">faults", ">p99", "from",
               "options", "about"});
  for (const PluginRow& row : rows) {
    const bool has_run = running && (row.state == "loaded" || row.state == "retiring");
    const bool shown_as_good = !running && row.state == "loaded";
    table.add({row.name.empty() ? escaped(std::filesystem::path(row.file).filename().string()) : row.name, row.kind,
               row.version, row.checksum.substr(0, kShortChecksum), shown_as_good ? "good" : row.state,
               joined(row.roles), has_run ? time_text(row.since_unix_ms) : "", has_run ? std::to_string(row.calls) : "",
               has_run ? std::to_string(row.faults) : "", has_run ? latency_text(row.p99_us) : "",
               row.shipped ? "shipped" : "drop folder", options_text(row),
               row.reason.empty() ? row.summary : row.reason});
  }
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void run_list(CliContext& context) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  Outcome<std::vector<RolePlugins>> roles = ask_roles(state.value(), kWait);
  if (!roles) return fail(context, roles.error());
  const bool running = !roles.value().empty();
  if (!running) {
    const Outcome<config::Snapshot> config = load_config(context);
    if (!config) return fail(context, config.error());
    Outcome<RolePlugins> next = at_next_start(*config.value(), state.value());
    if (!next) return fail(context, next.error());
    roles.value().push_back(std::move(next).value());
  }
  const std::vector<PluginRow> rows = brought_together(roles.value());
  if (!context.json) return print_rows(rows, running);
  json::array all;
  for (const PluginRow& row : rows) all.push_back(to_json(row));
  print_json(all);
}

void run_check(CliContext& context, const std::filesystem::path& file, bool here) {
  if (here) {
    context.exit_code = plugin_host::check_child_main(file);
    return;
  }
  const Outcome<plugin_host::PluginInfo> info = plugin_host::check_in_child(file, plugin_host::own_executable());
  if (context.json) {
    json::object out = info ? facts_of(info.value())
                            : json::object{{"file", file.string()}, {"reason", escaped(info.error().detail, 1000)}};
    out["ok"] = info.has_value();
    print_json(out);
  } else if (info) {
    std::printf("%s: good: %s %s (%s): %s\n", file.c_str(), escaped(info.value().name).c_str(),
                escaped(info.value().version).c_str(), escaped(info.value().kind).c_str(),
                escaped(info.value().summary).c_str());
  } else {
    std::fprintf(stderr, "broker: %s: %s\n", file.c_str(), escaped(info.error().detail, 1000).c_str());
  }
  if (!info) context.exit_code = kFailed;
}

}  // namespace

void add_plugin_commands(CLI::App& app, CliContext& context) {
  CLI::App* group = app.add_subcommand(
      "plugins", "list the plugins, check or sign a file before it is dropped in, go back to an earlier build");
  group->require_subcommand(1);
  group->footer(
      "Example:\n  broker plugins list\n  broker plugins check ./my_balancer.so\n"
      "  broker plugins sign ./my_balancer.so --key ~/.config/gearbox/plugin.key\n"
      "  broker plugins rollback least_loaded");
  add_command(*group, context, "list",
              "all plugins: those that serve, with their calls and faults, and why others do not",
              "broker plugins list --json", true)
      ->callback([&context] { run_list(context); });
  CLI::App* check =
      add_command(*group, context, "check", "load a plugin file in a child process and say whether it is good",
                  "broker plugins check ./my_balancer.so", true);
  const auto file = std::make_shared<std::filesystem::path>();
  const auto here = std::make_shared<bool>(false);
  check->add_option("file", *file, "the .so")->required()->type_name("FILE");
  check->add_flag("--child", *here, "check in this very process (what the check's child does)")->group("");
  check->callback([&context, file, here] { run_check(context, *file, *here); });
  add_plugin_sign_command(*group, context);
  add_plugin_book_commands(*group, context);
}

}  // namespace gearbox::cli
