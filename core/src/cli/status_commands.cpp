// status and shm: what the running roles say of themselves, asked over their control sockets.
#include "cli/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/gpu_page.hpp"
#include "cli/json_facts.hpp"
#include "cli/no_node.hpp"
#include "cli/table.hpp"
#include "config/central_files.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};

Outcome<json::object> ask_status(const std::filesystem::path& socket) {
  BOOST_OUTCOME_TRY(const std::string answer, serving::ask_control_now(socket, R"({"command":"status"})", kWait));
  return parse_object(answer);
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string state_of(const Outcome<json::object>& status) {
  if (!status) return status.error().code == Errc::unreachable ? "not running" : "no answer";
  if (truth_in(status.value(), "draining")) return "draining";
  if (truth_in(status.value(), "standby")) {
    if (status.value().contains("database_answers") && !truth_in(status.value(), "database_answers")) {
      return "standing by; the database is away";
    }
    return truth_in(status.value(), "active_answers") ? "standing by" : "standing by; central is silent";
  }
  return truth_in(status.value(), "ready") ? "ready" : "not ready";
}

/// Of the processes that look after groups, in the order in which they are shown.
using GearRoles = std::vector<std::pair<const char*, Outcome<json::object>>>;

bool is_child(const Outcome<json::object>& supervisor, std::string_view role) {
  if (!supervisor) return false;
  const json::array& children = list_in(supervisor.value(), "children");
  return std::any_of(children.begin(), children.end(), [&](const json::value& child) {
    return child.is_object() && text_in(child.get_object(), "role") == role;
  });
}

void print_roles(const Outcome<json::object>& supervisor, const Outcome<json::object>& central,
                 const Outcome<json::object>& standby, const Outcome<json::object>& node, const GearRoles& gears) {
  Table roles({"role", "state", ">pid", ">restarts", ">up", "address", "reason"});
  const auto add = [&](const char* name, const Outcome<json::object>& status) {
    std::string pid = status ? std::to_string(number_in(status.value(), "pid")) : std::string();
    std::string restarts;
    std::string up;
    std::string state = state_of(status);
    if (supervisor) {
      for (const json::value& child : list_in(supervisor.value(), "children")) {
        if (!child.is_object()) continue;
        // Of central and its standby either may serve: who answers is known by its pid.
        const bool is_it = status ? std::to_string(number_in(child.get_object(), "pid")) == pid
                                  : text_in(child.get_object(), "role") == name;
        if (!is_it) continue;
        pid = std::to_string(number_in(child.get_object(), "pid"));
        restarts = std::to_string(number_in(child.get_object(), "restarts"));
        up = duration_text(number_in(child.get_object(), "uptime_s"));
        if (!status && status.error().code == Errc::unreachable) state = "starting";
      }
    }
    roles.add(
        {name, state, pid, restarts, up, status ? text_in(status.value(), "listen") : std::string(),
         status || status.error().code == Errc::unreachable ? std::string() : escaped(status.error().detail, 80)});
  };
  const bool stopping = supervisor && truth_in(supervisor.value(), "stopping");
  roles.add({"supervisor",
             stopping     ? "stopping"
             : supervisor ? "running"
                          : state_of(supervisor),
             supervisor ? std::to_string(number_in(supervisor.value(), "pid")) : std::string()});
  add("central", central);
  if (standby) add("standby", standby);
  add("node", node);
  for (const auto& [name, status] : gears) {
    // Where they are not wanted nothing is said of them.
    if (status || is_child(supervisor, name)) add(name, status);
  }
  print(roles.text(colour_wanted()));
}

void print_node(const json::object& node) {
  Table tasks({"task", "state", "missing"});
  for (const json::value& each : list_in(node, "tasks")) {
    if (!each.is_object()) continue;
    std::string missing;
    for (const json::value& model : list_in(each.get_object(), "missing")) {
      if (model.is_string()) missing += (missing.empty() ? "" : ", ") + escaped(model.get_string());
    }
    tasks.add(
        {text_in(each.get_object(), "name"), truth_in(each.get_object(), "ready") ? "ready" : "not ready", missing});
  }
  if (!tasks.empty()) print("\n" + tasks.text(colour_wanted()));
  Table models({"model", "version", ">workers", ">ready", "state", "reason"});
  for (const json::value& each : list_in(node, "models")) {
    if (!each.is_object()) continue;
    const json::object& model = each.get_object();
    const std::string state = text_in(model, "state");
    models.add({text_in(model, "name"), text_in(model, "version"), std::to_string(number_in(model, "workers")),
                std::to_string(number_in(model, "ready")), state, text_in(model, "reason")});
  }
  if (!models.empty()) print("\n" + models.text(colour_wanted()));
  const std::string gpus = gpu_page(node, colour_wanted());
  if (!gpus.empty()) print("\n" + gpus);
}

/// What is acknowledged and not delivered, and what is wrong with keeping it.
void print_journal(const json::object& node) {
  const json::value* found = node.if_contains("journal");
  if (found == nullptr || !found->is_object()) return;
  const json::object& journal = found->get_object();
  const std::string level = text_in(journal, "level");
  if (level == "none") return print("\njournal: none, acknowledged does not mean durable\n");
  const std::uint64_t requests = number_in(journal, "requests");
  print("\njournal: " + level + ", " + std::to_string(requests) + (requests == 1 ? " request, " : " requests, ") +
        bytes_text(number_in(journal, "bytes")) + "\n");
  const std::string error = text_in(journal, "last_error");
  if (!error.empty()) print("  cannot write: " + escaped(error, 200) + "\n");
  const std::string aside = text_in(journal, "set_aside");
  if (!aside.empty()) print("  was damaged at the start, and set aside as " + escaped(aside, 400) + "\n");
}

/// What goes out to other systems, and what does not.
void print_sinks(const json::object& node) {
  const json::value* found = node.if_contains("sinks");
  if (found == nullptr || !found->is_object()) return;
  const json::object& sinks = found->get_object();
  Table table({"sink", "plugin", "state", ">queued", ">delivered", ">retried", ">dead letters", "last error"});
  for (const json::value& each : list_in(sinks, "list")) {
    if (!each.is_object()) continue;
    const json::object& sink = each.get_object();
    table.add({text_in(sink, "name"), text_in(sink, "plugin"), text_in(sink, "state"),
               std::to_string(number_in(sink, "queued")), std::to_string(number_in(sink, "delivered")),
               std::to_string(number_in(sink, "retried")), std::to_string(number_in(sink, "dead_letters")),
               escaped(text_in(sink, "last_error"), 80)});
  }
  if (!table.empty()) print("\n" + table.text(colour_wanted()));
  if (const std::uint64_t dropped = number_in(sinks, "dropped"); dropped > 0) {
    print("  dropped, neither queued nor a dead letter: " + std::to_string(dropped) + "\n");
  }
  const std::string error = text_in(sinks, "last_error");
  if (!error.empty()) print("  the queue cannot be written: " + escaped(error, 200) + "\n");
  if (const json::value* stranded = sinks.if_contains("stranded"); stranded != nullptr && stranded->is_object()) {
    for (const auto& [name, events] : stranded->get_object()) {
      print("  events of '" + escaped(std::string_view(name), 64) +
            "', which is no sink any more, that no dead-letter " +
            "file takes: " + std::to_string(events.is_number() ? events.to_number<std::uint64_t>() : 0) + "\n");
    }
  }
  const std::string aside = text_in(sinks, "set_aside");
  if (!aside.empty()) print("  the queue was damaged at the start, and set aside as " + escaped(aside, 400) + "\n");
}

void run_status(CliContext& context) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<json::object> supervisor = ask_status(state.value().supervisor_socket());
  const Outcome<json::object> central = ask_status(state.value().central_socket());
  const Outcome<json::object> standby = ask_status(config::standby_socket(state.value()));
  const Outcome<json::object> node = ask_status(state.value().node_socket());
  GearRoles gears;
  for (const char* name : {"observer", "executor", "scheduler"}) {
    gears.emplace_back(name, ask_status(state.value().run() / (std::string(name) + ".sock")));
  }
  const bool runs = supervisor || central || standby || node ||
                    std::any_of(gears.begin(), gears.end(), [](const auto& role) { return role.second.has_value(); });
  if (context.json) {
    const auto value = [](const Outcome<json::object>& status) {
      return status ? json::value(status.value()) : json::value(nullptr);
    };
    json::object all{{"supervisor", value(supervisor)},
                     {"central", value(central)},
                     {"standby", value(standby)},
                     {"node", value(node)}};
    for (const auto& [name, status] : gears) all[name] = value(status);
    print_json(all);
  } else if (runs) {
    print_roles(supervisor, central, standby, node, gears);
    if (node) print_node(node.value());
    if (node) print_journal(node.value());
    if (node) print_sinks(node.value());
  } else {
    std::fprintf(stderr, "broker: nothing runs on the state folder %s; start it with `broker up`\n",
                 state.value().root.c_str());
  }
  if (!runs) context.exit_code = kFailed;
}

void run_shm(CliContext& context) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<json::object> node = ask_status(state.value().node_socket());
  if (!node) return fail(context, from_node(node.error()));
  const json::object& memory = object_in(node.value(), "memory");
  if (context.json) return print_json(memory);
  Table table({"arena", ">size", ">used", ">share"});
  const auto add = [&](const char* name, const char* size_key, const char* used_key) {
    const std::uint64_t size = number_in(memory, size_key);
    const std::uint64_t used = number_in(memory, used_key);
    table.add({name, bytes_text(size), bytes_text(used), std::to_string(size == 0 ? 0 : used * 100 / size) + " %"});
  };
  add("input", "input_bytes", "input_used");
  add("output (all workers)", "output_bytes", "output_used");
  print(table.text(colour_wanted()));
}

}  // namespace

void add_status_commands(CLI::App& app, CliContext& context) {
  add_command(app, context, "status", "what runs here and what it can do", "broker status --json", true)
      ->callback([&context] { run_status(context); });
  add_command(app, context, "shm", "shared memory: how much there is and how much is in use", "broker shm", true)
      ->callback([&context] { run_shm(context); });
}

}  // namespace gearbox::cli
