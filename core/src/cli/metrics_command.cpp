// metrics: what the roles say of themselves, for monitoring systems.
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/gear_commands.hpp"
#include "cli/json_facts.hpp"
#include "cli/metrics_server.hpp"
#include "cli/metrics_text.hpp"
#include "config/central_files.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr std::uint64_t kMostGroups = 1024;

json::value status_of(const std::filesystem::path& socket) {
  const Outcome<std::string> answer = serving::ask_control_now(socket, R"({"command":"status"})", kWait);
  if (!answer) return nullptr;
  Outcome<json::object> status = parse_object(answer.value());
  return status ? json::value(std::move(status).value()) : json::value(nullptr);
}

/// All that metrics_text() reads. Of roles that are not wanted here nothing is said.
json::object gather(const config::StateDir& state) {
  json::object facts;
  const auto add = [&](const char* role, const std::filesystem::path& socket) {
    json::value status = status_of(socket);
    std::error_code missing;
    if (status.is_object() || std::filesystem::exists(socket, missing)) facts[role] = std::move(status);
  };
  add("supervisor", state.supervisor_socket());
  add("central", state.central_socket());
  add("standby", config::standby_socket(state));
  add("node", state.node_socket());
  for (const char* role : {"observer", "executor", "scheduler"}) add(role, state.run() / (std::string(role) + ".sock"));
  if (facts.empty()) facts["supervisor"] = nullptr;  // that nothing runs is a figure, too
  if (facts.contains("observer") && facts["observer"].is_object()) {
    json::object head;
    auto groups = list_of_gear_role(state, "observer", {{"command", "snapshot"}}, kMostGroups, &head);
    if (groups) facts["groups"] = std::move(groups).value();
    facts["links"] = list_in(head, "links");
  }
  return facts;
}

void run_metrics(CliContext& context, const std::string& listen) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const auto page = [&] { return metrics_text(gather(state.value())); };
  if (listen.empty()) {
    const std::string text = page();
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const Outcome<void> served = serve_metrics(listen, page, [](const std::string& where) {
    std::printf("metrics at http://%s/metrics\n", where.c_str());
    std::fflush(stdout);
  });
  if (!served) fail(context, served.error());
}

}  // namespace

void add_metrics_command(CLI::App& app, CliContext& context) {
  CLI::App* command =
      add_command(app, context, "metrics", "the same as figures for monitoring, in Prometheus' text format",
                  "broker metrics --listen 127.0.0.1:9464", false);
  auto listen = std::make_shared<std::string>();
  command
      ->add_option("--listen", *listen,
                   "serve them at http://ADDRESS/metrics until SIGTERM, instead of printing them once")
      ->type_name("ADDRESS:PORT");
  command->callback([&context, listen] { run_metrics(context, *listen); });
}

}  // namespace gearbox::cli
