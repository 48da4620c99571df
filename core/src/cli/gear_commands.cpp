// gear show, history and explain: what groups are in, what was shifted, and why; asked of the three roles.
#include "cli/gear_commands.hpp"

#include <boost/json/serialize.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.hpp"
#include "cli/gear_page.hpp"
#include "cli/json_facts.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr std::uint64_t kMostGroups = 100'000;  // a limit against a confused role

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string consequence_of(std::string_view role) {
  if (role == "observer") return ", so nobody knows what the groups do, and nothing is decided";
  if (role == "executor") return ", so no group can change its gear; all go on in theirs";
  return ", so nothing is decided; groups stay in their gears, and `broker gear set` works";
}

/// Observer's and executor's facts of each group, brought together by name.
json::array brought_together(const json::array& seen, const json::array& records) {
  std::map<std::string, json::object> groups;
  for (const json::value& each : seen) {
    if (each.is_object()) groups.emplace(text_in(each.get_object(), "name"), each.get_object());
  }
  for (const json::value& each : records) {
    if (!each.is_object()) continue;
    const std::string name = text_in(each.get_object(), "name");
    json::object& group = groups[name];
    group["name"] = name;
    group["record"] = each;
  }
  json::array all;
  for (auto& [name, group] : groups) all.push_back(std::move(group));
  return all;
}

/// Groups of other hosts, as the scheduler that leads here saw them; they are called by their own names.
void add_other_hosts(const config::StateDir& state, const json::object& scheduler, json::array& groups) {
  std::string own;
  for (const json::value& each : list_in(scheduler, "hosts")) {
    if (each.is_object() && truth_in(each.get_object(), "own")) own = text_in(each.get_object(), "name");
  }
  if (own.empty()) return;
  for (json::value& each : groups) each.get_object()["host"] = own;
  auto led = list_of_gear_role(state, "scheduler", {{"command", "groups"}}, kMostGroups);
  if (!led) return;  // it has just ended: its status says what is to be said
  for (json::value& each : led.value()) {
    json::object& group = each.get_object();
    const std::string host = text_in(group, "host");
    if (host == own) continue;
    group["name"] = text_in(group, "name").substr(host.size() + 1);
    groups.push_back(std::move(group));
  }
}

void run_show(CliContext& context) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  json::array missing;
  const auto lacks = [&](const char* role, const Error& error) {
    missing.push_back(json::object{{"role", role}, {"why", error.detail}});
  };
  json::object facts;
  json::object head;
  const auto seen = list_of_gear_role(state.value(), "observer", {{"command", "snapshot"}}, kMostGroups, &head);
  if (!seen) lacks("observer", seen.error());
  const auto records = list_of_gear_role(state.value(), "executor", {{"command", "groups"}}, kMostGroups);
  if (!records) lacks("executor", records.error());
  const auto scheduler = ask_gear_role(state.value(), "scheduler", {{"command", "status"}});
  if (!scheduler) lacks("scheduler", scheduler.error());
  const bool nobody = !seen && !records && !scheduler;
  if (nobody) {
    return fail(context, Error{Errc::unreachable,
                               "no observer, executor and scheduler run here: `broker up` starts "
                               "them when gears.enabled is set in gearbox.toml"});
  }
  json::array groups = brought_together(seen ? seen.value() : json::array(), records ? records.value() : json::array());
  if (scheduler) add_other_hosts(state.value(), scheduler.value(), groups);
  facts["groups"] = std::move(groups);
  facts["snapshot"] = seen ? json::value(head) : json::value(nullptr);
  facts["scheduler"] = scheduler ? json::value(scheduler.value()) : json::value(nullptr);
  facts["missing"] = std::move(missing);
  if (!seen && !records) context.exit_code = kFailed;
  if (context.json) return print_json(facts);
  print(groups_page(facts, colour_wanted()));
}

void run_listed(CliContext& context, const char* role, const char* command, const std::string& group,
                std::uint64_t count, std::string (*page)(const json::array&, bool)) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  json::object request{{"command", command}};
  if (!group.empty()) {
    // A scheduler that decides on several hosts calls a group NODE/GROUP.
    const std::size_t slash = std::string_view(role) == "scheduler" ? group.find('/') : std::string::npos;
    Outcome<void> named = done();
    if (slash != std::string::npos) named = check_name("node", group.substr(0, slash));
    if (named) named = check_name("group", slash == std::string::npos ? group : group.substr(slash + 1));
    if (!named) return fail(context, named.error());
    request["group"] = group;
  }
  const auto listed = list_of_gear_role(state.value(), role, std::move(request), count);
  if (!listed) return fail(context, listed.error());
  if (context.json) return print_json(listed.value());
  print(page(listed.value(), colour_wanted()));
}

}  // namespace

Outcome<json::object> ask_gear_role(const config::StateDir& state, std::string_view role, json::object command) {
  const std::filesystem::path socket = state.run() / (std::string(role) + ".sock");
  const auto answer = serving::ask_control_now(socket, json::serialize(command), kWait);
  if (answer) return parse_object(answer.value());
  if (answer.error().code == Errc::unreachable)
    return Error{Errc::unreachable, "no " + std::string(role) + " runs here" + consequence_of(role)};
  return Error{answer.error().code, "the " + std::string(role) + ": " + answer.error().detail};
}

Outcome<json::array> list_of_gear_role(const config::StateDir& state, std::string_view role, json::object command,
                                       std::uint64_t most, json::object* head) {
  json::array all;
  for (bool first = true;; first = false) {
    BOOST_OUTCOME_TRY(json::object answer, ask_gear_role(state, role, command));
    const json::array& page = list_in(answer, "list");
    std::string last;
    for (const json::value& each : page) {
      if (!each.is_object()) continue;
      const json::object& entry = each.get_object();
      last = entry.contains("key") ? text_in(entry, "key") : text_in(entry, "name");
      if (all.size() < most) all.push_back(each);
    }
    const bool more = truth_in(answer, "more") && !last.empty() && all.size() < most;
    answer.erase("list");
    answer.erase("more");
    if (first && head != nullptr) *head = std::move(answer);
    if (!more) return all;
    command["after"] = last;
  }
}

void add_gear_commands(CLI::App& app, CliContext& context) {
  CLI::App* gear = app.add_subcommand("gear", "groups: which gear each is in, what was shifted, and why");
  gear->require_subcommand(1);
  add_command(*gear, context, "show", "the groups, their gears and what they do", "broker gear show", true)
      ->callback([&context] { run_show(context); });
  add_gear_orders(*gear, context);

  struct Asked {
    std::string group;
    std::uint64_t count = 0;
  };
  const auto add_list = [&](const char* name, const char* summary, const char* example, std::uint64_t count,
                            const char* role, const char* command, auto page) {
    CLI::App* listing = add_command(*gear, context, name, summary, example, true);
    const auto asked = std::make_shared<Asked>();
    asked->count = count;
    listing->add_option("GROUP", asked->group, "of this group only");
    listing
        ->add_option("--count", asked->count, "how many at most, newest first (default: " + std::to_string(count) + ")")
        ->check(CLI::Range(1, 1000));
    listing->callback([&context, asked, role, command, page] {
      run_listed(context, role, command, asked->group, asked->count, page);
    });
  };
  add_list("history", "the last shifts and what they cost", "broker gear history story", 32, "executor", "history",
           shifts_page);
  add_list("explain", "the last decisions: what the policy wished, what the governor said, and the figures behind it",
           "broker gear explain story --count 3", 5, "scheduler", "explain", decisions_page);
}

}  // namespace gearbox::cli
