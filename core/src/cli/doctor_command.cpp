// doctor: looks at the host and the configuration before anything is started, and says what to do.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>
#include <cstdio>

#include "central/accounts_database.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/json_facts.hpp"
#include "cli/log_to_stderr.hpp"
#include "config/unserved.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

const char* word(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::warn ? "warn" : "fail";
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<Finding> check_plugins(const config::Config& config, const config::StateDir& state) {
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.plugins.folder;
  paths.copies = state.plugin_copies();
  paths.checker = plugin_host::own_executable();
  const auto host = plugin_host::PluginHost::open(paths, config.plugins);
  if (!host) {
    return {{"plugins", Verdict::fail, host.error().detail,
             "the drop folder must belong to root or the broker's user, and nobody "
             "else may write to it"}};
  }
  std::vector<Finding> out;
  std::size_t loaded = 0;
  for (const plugin_host::PluginInfo& info : host.value()->list()) {
    if (info.state != "refused") {
      ++loaded;
      continue;
    }
    out.push_back(
        {"plugin " + info.file.filename().string(), Verdict::warn, "refused: " + info.reason, "replace or remove it"});
  }
  out.insert(out.begin(), Finding{"plugins", Verdict::ok, std::to_string(loaded) + " loaded", {}});
  return out;
}

std::vector<Finding> check_tasks(const config::Config& config) {
  std::vector<Finding> out;
  for (const config::Unserved& unserved : config::unserved_of(config)) {
    out.push_back({"task " + unserved.task, Verdict::warn, unserved.reason + ": the task cannot run here",
                   "add a [[worker]] for it to gearbox.toml, or remove the task from this node's tasks/"});
  }
  return out;
}

std::vector<Finding> check_accounts(const config::Config& config, const config::StateDir& state) {
  const central::AccountsPlace place = central::accounts_place(state, config.central);
  if (!config.central.enabled || !place.is_shared()) return {};
  const Outcome<std::string> seen = central::look_at_accounts_database(place);
  if (seen) return {{"central.database", Verdict::ok, seen.value(), {}}};
  return {{"central.database", Verdict::fail, seen.error().detail,
           "no central serves without it: is the server up, and ~/.pgpass or PGPASSFILE as the broker's user has it?"}};
}

void run_doctor(CliContext& context) {
  log_to_stderr();
  const Outcome<config::StateDir> state = open_state(context);
  std::vector<Finding> all = check_kernel();
  if (state) {
    append(all, check_state_folder(state.value()));
  } else {
    all.push_back(
        {"state folder", Verdict::fail, state.error().detail,
         "run as the user that it belongs to, give another one with --state, or set its owner and mode right"});
  }
  append(all, check_clock());
  const Outcome<config::Snapshot> config = load_config(context);
  if (config) {
    all.push_back({"configuration", Verdict::ok, config.value()->folder.string(), {}});
    append(all, check_tasks(*config.value()));
    append(all, check_ranks(*config.value()));
    append(all, check_descriptors(*config.value()));
    append(all, check_memory(*config.value()));
    if (state) {  // these look at what lies there
      append(all, check_ports(*config.value(), state.value()));
      append(all, check_plugins(*config.value(), state.value()));
      append(all, check_accounts(*config.value(), state.value()));
      append(all, check_gear_hosts(*config.value(), state.value()));
      append(all, check_environments(*config.value(), state.value()));
    }
  } else {
    all.push_back(
        {"configuration", Verdict::fail, config.error().detail, "correct it; `broker config check` lists every fault"});
  }
  const bool failed =
      std::any_of(all.begin(), all.end(), [](const Finding& each) { return each.verdict == Verdict::fail; });
  if (failed) context.exit_code = kFailed;
  if (context.json) {
    json::array findings;
    for (const Finding& each : all) {
      json::object out{{"check", each.check},
                       {"verdict", word(each.verdict)},
                       {"what", escaped(each.what, 2000)},
                       {"advice", each.advice}};
      findings.push_back(std::move(out));
    }
    const json::object out{{"ok", !failed}, {"findings", std::move(findings)}};
    return print_json(out);
  }
  const bool colour = colour_wanted();
  for (const Finding& each : all) {
    const char* paint = !colour                         ? ""
                        : each.verdict == Verdict::ok   ? "\033[32m"
                        : each.verdict == Verdict::warn ? "\033[33m"
                                                        : "\033[31m";
    std::printf("%s%-4s%s  %-20s %s\n", paint, word(each.verdict), colour ? "\033[0m" : "", each.check.c_str(),
                each.what.c_str());
    if (!each.advice.empty()) std::printf("      → %s\n", each.advice.c_str());
  }
}

}  // namespace

void add_doctor_command(CLI::App& app, CliContext& context) {
  add_command(app, context, "doctor", "is everything there that the broker needs? what to do if not",
              "broker doctor --config configs", true)
      ->callback([&context] { run_doctor(context); });
}

}  // namespace gearbox::cli
