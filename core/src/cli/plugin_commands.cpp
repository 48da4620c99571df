// plugins list and plugins check.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <memory>
#include <optional>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/check_child.hpp"
#include "plugin_host/plugin_host.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr std::size_t kShortChecksum = 12;  // hexadecimal digits: enough to tell two files apart

json::object facts_of(const plugin_host::PluginInfo& info) {
  json::array options;
  for (const plugin_host::OptionInfo& option : info.options) {
    options.push_back(
        json::object{{"key", option.key}, {"default", option.fallback}, {"unit", option.unit}, {"help", option.help}});
  }
  return json::object{{"name", info.name},          {"kind", info.kind},
                      {"version", info.version},    {"summary", info.summary},
                      {"state", info.state},        {"reason", info.reason},
                      {"checksum", info.checksum},  {"shipped", info.shipped},
                      {"file", info.file.string()}, {"options", std::move(options)}};
}

/// "fill=4": each option with its default.
std::string options_text(const plugin_host::PluginInfo& info) {
  std::string text;
  for (const plugin_host::OptionInfo& option : info.options) {
    text += (text.empty() ? "" : " ") + escaped(option.key) + "=" + escaped(option.fallback);
  }
  return text;
}

/// The plugins of the node that runs on this state folder, as it tells; nothing when none does.
std::optional<json::array> node_plugins(const config::StateDir& state) {
  const auto answer = serving::ask_control_now(state.node_socket(), R"({"command":"status"})", kWait);
  if (!answer) return std::nullopt;
  const Outcome<json::object> status = parse_object(answer.value());
  if (!status) return std::nullopt;
  return list_in(status.value(), "plugins");
}

/// What the node has loaded from the same bytes; nullptr: it has not.
const json::object* in_node(const json::array& node, const std::string& checksum) {
  for (const json::value& plugin : node) {
    if (plugin.is_object() && text_in(plugin.get_object(), "checksum") == checksum &&
        text_in(plugin.get_object(), "state") == "loaded") {
      return &plugin.get_object();
    }
  }
  return nullptr;
}

void run_list(CliContext& context) {
  const Outcome<config::Snapshot> config = load_config(context);
  if (!config) return fail(context, config.error());
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.value()->plugins.folder;
  paths.copies = state.value().plugin_copies();
  paths.checker = plugin_host::own_executable();
  const Outcome<std::unique_ptr<plugin_host::PluginHost>> host =
      plugin_host::PluginHost::open(paths, config.value()->plugins);
  if (!host) return fail(context, host.error());
  const std::optional<json::array> node = node_plugins(state.value());
  Table table({"name", "kind", "version", "checksum", "state", "from", ">faults", "options", "summary"});
  json::array all;
  for (const plugin_host::PluginInfo& info : host.value()->list()) {
    json::object facts = facts_of(info);
    std::string shown = info.state;
    std::string faults;
    if (info.state == "loaded") {
      // This command has loaded it only to look at it: what serves is what the node has.
      const json::object* there = node ? in_node(*node, info.checksum) : nullptr;
      shown = there != nullptr ? "loaded" : node ? "next start" : "good";
      if (there != nullptr) faults = std::to_string(number_in(*there, "faults"));
      if (node) facts["in_node"] = there != nullptr;
      if (there != nullptr) facts["faults"] = number_in(*there, "faults");
    }
    all.push_back(std::move(facts));
    table.add({info.name.empty() ? escaped(info.file.filename().string()) : escaped(info.name), escaped(info.kind),
               escaped(info.version), info.checksum.substr(0, kShortChecksum), shown,
               info.shipped ? "shipped" : "drop folder", faults, options_text(info),
               escaped(info.state == "refused" ? info.reason : info.summary)});
  }
  if (context.json) return print_json(all);
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
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
  CLI::App* group = app.add_subcommand("plugins", "list the plugins, or check a file before it is dropped in");
  group->require_subcommand(1);
  group->footer("Example:\n  broker plugins list --config configs");
  add_command(*group, context, "list", "all plugins that were found, and why some were refused",
              "broker plugins list --config configs", true)
      ->callback([&context] { run_list(context); });
  CLI::App* check =
      add_command(*group, context, "check", "load a plugin file in a child process and say whether it is good",
                  "broker plugins check ./my_balancer.so", true);
  const auto file = std::make_shared<std::filesystem::path>();
  const auto here = std::make_shared<bool>(false);
  check->add_option("file", *file, "the .so")->required()->type_name("FILE");
  check->add_flag("--child", *here, "check in this very process (what the check's child does)")->group("");
  check->callback([&context, file, here] { run_check(context, *file, *here); });
}

}  // namespace gearbox::cli
