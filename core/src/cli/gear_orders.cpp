// gear set, release and allow: what a person wants of a group, straight to the executor: no scheduler is needed.
#include <boost/json/array.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/gear_commands.hpp"
#include "cli/gear_page.hpp"
#include "cli/json_facts.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kLook{50};
constexpr milliseconds kLongest{330'000};  // the executor itself gives up before

/// Its entry in the history, once it is there. Errors: of the executor; timeout.
Outcome<json::object> end_of(const config::StateDir& state, std::uint64_t number) {
  const Instant deadline = after(Clock::now(), kLongest);
  for (;;) {
    const auto outcome = ask_gear_role(state, "executor", {{"command", "outcome"}, {"number", number}});
    // One that is started again asks the engine what became of it.
    const bool away = !outcome && (outcome.error().code == Errc::unreachable || outcome.error().code == Errc::closed);
    if (!outcome && !away) return outcome.error();
    if (outcome && !truth_in(outcome.value(), "going_on")) return outcome;
    if (Clock::now() > deadline) {
      return Error{Errc::timeout, "shift " + std::to_string(number) + " goes on still; see `broker gear history`"};
    }
    std::this_thread::sleep_for(kLook);
  }
}

void run_set(CliContext& context, const std::string& group, unsigned gear, bool hold) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const json::object order{{"command", "shift"}, {"group", group},        {"gear", gear},
                           {"origin", "person"}, {"decision", "by hand"}, {"hold", hold}};
  const auto ordered = ask_gear_role(state.value(), "executor", order);
  if (!ordered) return fail(context, ordered.error());
  const auto ended = end_of(state.value(), number_in(ordered.value(), "number"));
  if (!ended) return fail(context, ended.error());
  const json::object& entry = ended.value();
  const bool done = truth_in(entry, "ok");
  if (!done) context.exit_code = kFailed;
  if (context.json) return print_json(entry);
  if (!done) {
    std::fprintf(stderr, "broker: %s stays in gear %u: %s\n", escaped(group).c_str(),
                 static_cast<unsigned>(number_in(entry, "from")), text_in(entry, "why").c_str());
    return;
  }
  const json::object& report = object_in(entry, "report");
  std::printf("%s: gear %u → %u", escaped(group).c_str(), static_cast<unsigned>(number_in(entry, "from")), gear);
  const double whole = real_in(report, "shift_ms", -1);
  const double pause = real_in(report, "pause_ms", -1);
  if (whole >= 0) std::printf(" in %.0f ms", whole);
  if (pause >= 0) std::printf(", its generations paused for %.1f ms", pause);
  std::printf("%s\n", hold ? "; it is held there (broker gear release)" : "");
}

void run_release(CliContext& context, const std::string& group) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const auto answer =
      ask_gear_role(state.value(), "executor", {{"command", "hold"}, {"group", group}, {"held", false}});
  if (!answer) return fail(context, answer.error());
  if (context.json) return print_json(answer.value());
  std::printf("%s is the scheduler's again\n", escaped(group).c_str());
}

/// "1,2,3"; "all". Errors: bad_name.
Outcome<json::array> read_gears(const std::string& text) {
  json::array gears;
  if (text == "all") return gears;
  for (std::size_t at = 0; at <= text.size(); at += 2) {
    const bool is_gear = at < text.size() && text[at] >= '1' && text[at] <= '6';
    const bool ends = at + 1 >= text.size() || text[at + 1] == ',';
    if (!is_gear || !ends) return Error{Errc::bad_name, "gears are numbers 1 to 6 with commas between, or all"};
    gears.push_back(text[at] - '0');
    if (at + 1 == text.size()) return gears;
  }
  return Error{Errc::bad_name, "gears are numbers 1 to 6 with commas between, or all"};
}

void run_allow(CliContext& context, const std::string& group, const std::string& text) {
  const Outcome<json::array> gears = read_gears(text);
  if (!gears) return fail(context, gears.error());
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const auto answer =
      ask_gear_role(state.value(), "executor", {{"command", "allow"}, {"group", group}, {"gears", gears.value()}});
  if (!answer) return fail(context, answer.error());
  if (context.json) return print_json(answer.value());
  std::printf("%s may be in %s\n", escaped(group).c_str(),
              gears.value().empty() ? "every gear that its pool allows" : ("gears " + text + " only").c_str());
}

}  // namespace

void add_gear_orders(CLI::App& gear, CliContext& context) {
  struct Asked {
    std::string group, gears;
    unsigned gear = 0;
    bool hold = false;
  };
  const auto asked = std::make_shared<Asked>();
  const auto add_group = [asked](CLI::App* command) {
    command->add_option("GROUP", asked->group, "the group's name, as `broker gear show` has it")->required();
    return command;
  };
  CLI::App* set = add_group(
      add_command(gear, context, "set", "have a group change its gear now", "broker gear set story 3 --hold", true));
  set->add_option("GEAR", asked->gear, "1 data parallel, 2 tensor ×2, 3 tensor ×4, 4 sequence, 5 pipeline, 6 hybrid")
      ->required()
      ->check(CLI::Range(1, 6));
  set->add_flag("--hold", asked->hold, "and keep it there, whatever the scheduler would like");
  set->callback([&context, asked] { run_set(context, asked->group, asked->gear, asked->hold); });
  add_group(add_command(gear, context, "release", "let the scheduler decide on a group again",
                        "broker gear release story", true))
      ->callback([&context, asked] { run_release(context, asked->group); });
  CLI::App* allow = add_group(add_command(gear, context, "allow", "restrict the gears that a group may be in",
                                          "broker gear allow story 1,2,3", true));
  allow->add_option("GEARS", asked->gears, "numbers with commas between, or all")->required();
  allow->callback([&context, asked] { run_allow(context, asked->group, asked->gears); });
}

}  // namespace gearbox::cli
