#include "cli/running_config.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"
#include "config/facts.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr int kTries = 5;                      // when a reload falls between two pieces
constexpr std::size_t kMaxValues = 1'000'000;  // against a confused role

const char* name_of(RoleDiff::State state) {
  switch (state) {
    case RoleDiff::State::in_force:
      return "in force";
    case RoleDiff::State::not_yet:
      return "not yet";
    case RoleDiff::State::differs:
      return "differs";
    case RoleDiff::State::not_running:
      return "not running";
    case RoleDiff::State::no_answer:
      return "no answer";
  }
  return "";
}

std::string raw_text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

/// All pieces of one configuration; `changed` when another one came into force in between.
Outcome<RunningConfig> ask_once(const std::filesystem::path& socket, milliseconds within, bool& changed) {
  RunningConfig running;
  std::uint64_t from = 0;
  do {
    const json::object request{{"command", "config"}, {"from", from}};
    BOOST_OUTCOME_TRY(const std::string answer, serving::ask_control_now(socket, json::serialize(request), within));
    BOOST_OUTCOME_TRY(const json::object facts, parse_object(answer));
    const std::string digest = raw_text_in(facts, "digest");
    changed = from != 0 && digest != running.digest;
    if (changed) return running;
    running.folder = raw_text_in(facts, "folder");
    running.digest = digest;
    running.since_unix_ms = number_in(facts, "since_unix_ms");
    running.error = raw_text_in(facts, "error");
    BOOST_OUTCOME_TRY(const std::uint64_t next, config::add_values(facts, running.values));
    if (next != 0 && (next <= from || running.values.size() > kMaxValues))
      return Error{Errc::bad_frame, "the answer's pieces do not follow each other"};
    from = next;
  } while (from != 0);
  return running;
}

RoleDiff diff_of(const config::Config& folder, const std::vector<config::Value>& values, const RoleConfig& role) {
  using State = RoleDiff::State;
  RoleDiff diff;
  diff.role = role.role;
  if (!role.running) {
    const bool absent = role.running.error().code == Errc::unreachable;
    diff.state = absent ? State::not_running : State::no_answer;
    diff.reason = absent ? std::string() : describe(role.running.error());
    return diff;
  }
  diff.running = role.running.value();
  diff.changes = config::compare(diff.running.values, values);
  diff.state = diff.running.digest == folder.digest ? State::in_force
               : diff.changes.empty()               ? State::not_yet
                                                    : State::differs;
  return diff;
}

std::string summary_of(const RoleDiff& role, std::uint64_t now_unix_ms) {
  const std::uint64_t age_ms = now_unix_ms - std::min(now_unix_ms, role.running.since_unix_ms);
  switch (role.state) {
    case RoleDiff::State::in_force:
      return "in force for " + duration_text(age_ms / 1000) + " (digest " + escaped(role.running.digest) + ")";
    case RoleDiff::State::not_yet:
      return "has not taken over the files as they are now; no setting differs";
    case RoleDiff::State::differs:
      return std::to_string(role.changes.size()) +
             (role.changes.size() == 1 ? " setting differs" : " settings differ") + " (running -> folder)";
    case RoleDiff::State::not_running:
      return "not running";
    case RoleDiff::State::no_answer:
      return "no answer: " + escaped(role.reason);
  }
  return {};
}

json::value typed(const config::Value& value) {
  const char* const begin = value.value.data();
  const char* const end = begin + value.value.size();
  std::int64_t whole = 0;
  double number = 0;
  if (value.kind == config::Value::Kind::truth) return value.value == "true";
  if (value.kind == config::Value::Kind::number) {
    if (std::from_chars(begin, end, whole).ptr == end) return whole;
    if (std::from_chars(begin, end, number).ptr == end) return number;
  }
  return json::value(value.value);
}

}  // namespace

Outcome<RunningConfig> ask_running_config(const std::filesystem::path& socket, milliseconds within) {
  for (int i = 0; i < kTries; ++i) {
    bool changed = false;
    BOOST_OUTCOME_TRY(RunningConfig running, ask_once(socket, within, changed));
    if (!changed) return running;
  }
  return Error{Errc::overloaded, "its configuration changes faster than it can be told"};
}

std::vector<RoleConfig> ask_roles(const config::StateDir& state) {
  std::vector<RoleConfig> roles;
  roles.push_back({"central", ask_running_config(state.central_socket(), kWait)});
  roles.push_back({"node", ask_running_config(state.node_socket(), kWait)});
  // Those that look after groups run only where they are wanted.
  for (const char* role : {"observer", "executor", "scheduler"}) {
    Outcome<RunningConfig> running = ask_running_config(state.run() / (std::string(role) + ".sock"), kWait);
    if (running || running.error().code != Errc::unreachable) roles.push_back({role, std::move(running)});
  }
  return roles;
}

std::vector<RoleDiff> diff_of(const config::Config& folder, const std::vector<RoleConfig>& roles) {
  const std::vector<config::Value> values = config::values_of(folder);
  std::vector<RoleDiff> diffs;
  for (const RoleConfig& role : roles) diffs.push_back(diff_of(folder, values, role));
  return diffs;
}

bool all_agree(const std::vector<RoleDiff>& roles) {
  const auto runs = [](const RoleDiff& role) { return role.state != RoleDiff::State::not_running; };
  return std::any_of(roles.begin(), roles.end(), runs) &&
         std::all_of(roles.begin(), roles.end(), [&](const RoleDiff& role) {
           return !runs(role) || (role.state == RoleDiff::State::in_force && role.running.error.empty());
         });
}

std::string text_of(const std::vector<RoleDiff>& roles, std::uint64_t now_unix_ms) {
  std::string text;
  for (const RoleDiff& role : roles) {
    text += role.role + ": " + summary_of(role, now_unix_ms) + "\n";
    std::size_t widest = 0;
    for (const config::Change& change : role.changes) widest = std::max(widest, change.key.size());
    for (const config::Change& change : role.changes) {
      std::string key = escaped(change.key);
      const std::string line = config::shown(change);  // "KEY: before -> after"
      const std::string values = line.substr(key.size() + 2);
      key.resize(std::max(widest, key.size()), ' ');
      text += "  " + key + "  " + values + (change.needs_restart ? "  (needs a restart)\n" : "  (live)\n");
    }
    std::string_view rest = role.running.error;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      text += "  refused: " + escaped(rest.substr(0, end), 1000) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return text;
}

json::object json_of(const std::vector<RoleDiff>& roles) {
  json::object all;
  for (const RoleDiff& role : roles) {
    json::array changes;
    for (const config::Change& change : role.changes) {
      json::object each{{"key", change.key},
                        {"before", change.before},
                        {"after", change.after},
                        {"needs_restart", change.needs_restart}};
      changes.push_back(std::move(each));
    }
    json::object each{{"state", name_of(role.state)},
                      {"reason", role.reason},
                      {"folder", role.running.folder},
                      {"digest", role.running.digest},
                      {"since_unix_ms", role.running.since_unix_ms},
                      {"error", role.running.error},
                      {"changes", std::move(changes)}};
    all[role.role] = std::move(each);
  }
  return all;
}

json::object json_of(const RunningConfig& running) {
  json::object values;
  for (const config::Value& value : running.values) values[value.key] = value.value;
  json::object out{{"folder", running.folder},
                   {"digest", running.digest},
                   {"since_unix_ms", running.since_unix_ms},
                   {"error", running.error},
                   {"values", std::move(values)}};
  return out;
}

json::object nested(const std::vector<config::Value>& values) {
  json::object root;
  for (const config::Value& value : values) {
    json::object* at = &root;
    for (std::size_t i = 0; i + 1 < value.path.size(); ++i) {
      json::value& below = (*at)[value.path[i]];
      if (!below.is_object()) below = json::object();
      at = &below.get_object();
    }
    (*at)[value.path.back()] = typed(value);
  }
  return root;
}

}  // namespace gearbox::cli
