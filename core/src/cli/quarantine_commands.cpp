// quarantine list, show and release: the requests that two workers died of.
#include "cli/commands.hpp"

#include <boost/json/serialize.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/accounts_commands.hpp"
#include "cli/json_facts.hpp"
#include "cli/no_node.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr std::size_t kMost = 100'000;  // a limit against a confused node

Outcome<json::object> ask(const CliContext& context, json::object request) {
  BOOST_OUTCOME_TRY(const config::StateDir state, open_state(context));
  request["command"] = "quarantine";
  auto answer = serving::ask_control_now(state.node_socket(), json::serialize(request), kWait);
  if (!answer) return from_node(answer.error());
  return parse_object(answer.value());
}

/// All of them, the newest first.
Outcome<json::array> held(const CliContext& context) {
  json::array all;
  for (;;) {
    BOOST_OUTCOME_TRY(const json::object answer, ask(context, {{"from", all.size()}}));
    const json::array& piece = list_in(answer, "requests");
    for (const json::value& each : piece) {
      if (each.is_object()) all.push_back(each);
    }
    if (piece.empty() || all.size() >= number_in(answer, "total") || all.size() >= kMost) return all;
  }
}

std::string when(const json::object& request) {
  return time_text(static_cast<std::int64_t>(number_in(request, "since_unix_ms")));
}

void run_list(CliContext& context) {
  const Outcome<json::array> all = held(context);
  if (!all) return fail(context, all.error());
  Table table({"request", "since", "task", "model", "version", "user", ">in"});
  for (const json::value& each : all.value()) {
    const json::object& request = each.get_object();
    table.add({text_in(request, "request").substr(0, 12), when(request), text_in(request, "task"),
               text_in(request, "model"), text_in(request, "version"), text_in(request, "user"),
               bytes_text(number_in(request, "input_bytes"))});
  }
  show(context, all.value(), table, "nothing is in quarantine");
}

void run_show(CliContext& context, const std::string& id) {
  const Outcome<json::array> all = held(context);
  if (!all) return fail(context, all.error());
  const json::object* found = nullptr;
  for (const json::value& each : all.value()) {
    if (!text_in(each.get_object(), "request").starts_with(id)) continue;
    if (found != nullptr) {
      return fail(context,
                  Error{Errc::bad_input, "several requests in quarantine begin with '" + escaped(id, 64) + "'"});
    }
    found = &each.get_object();
  }
  if (found == nullptr) {
    return fail(context, Error{Errc::not_found, "no request '" + escaped(id, 64) + "' is in quarantine"});
  }
  if (context.json) return print_json(*found);
  Table table({"request", text_in(*found, "request")});
  table.add({"since", when(*found)});
  table.add({"task", text_in(*found, "task")});
  table.add({"step", text_in(*found, "step")});
  table.add({"model", text_in(*found, "model") + " " + text_in(*found, "version")});
  table.add({"user", text_in(*found, "user")});
  table.add({"device", device_text(text_in(*found, "device"))});
  table.add({"input", bytes_text(number_in(*found, "input_bytes"))});
  for (const json::value& end : list_in(*found, "ends")) {
    if (end.is_string()) table.add({"end", escaped(std::string(end.get_string()), 200)});
  }
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void run_release(CliContext& context, const std::string& id) {
  const Outcome<json::object> answer = ask(context, {{"release", id}});
  if (!answer) return fail(context, answer.error());
  if (context.json) return print_json(answer.value());
  std::printf("%s may be sent again\n", text_in(answer.value(), "request").c_str());
}

}  // namespace

void add_quarantine_commands(CLI::App& app, CliContext& context) {
  CLI::App* group = app.add_subcommand("quarantine", "requests that two workers died of: list them, let them go");
  group->require_subcommand(1);
  group->footer("Example:\n  broker quarantine list");
  add_command(*group, context, "list", "the newest first", "broker quarantine list --json", true)->callback([&context] {
    run_list(context);
  });
  const auto id = std::make_shared<std::string>();
  const auto with_id = [&](const char* name, const char* summary, const char* example, auto run) {
    CLI::App* command = add_command(*group, context, name, summary, example, true);
    command->add_option("request", *id, "the request's id, or its first characters (4 at least)")
        ->required()
        ->type_name("ID");
    command->callback([&context, id, run] { run(context, *id); });
  };
  with_id("show", "all that is known of one, and how both workers ended", "broker quarantine show 3f2a9c01", run_show);
  with_id("release", "its device may send it again", "broker quarantine release 3f2a9c01", run_release);
}

}  // namespace gearbox::cli
