#include "config/compare.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "gearbox/base/text.hpp"

namespace gearbox::config {

namespace {

// Whatever is not here changes live.
constexpr std::array<std::string_view, 18> kNeedsRestart = {
    "central.enabled",                  // the supervisor starts roles, and does so at its own start
    "central.listen",                   // devices and nodes hold this address; a listener is bound once
    "central.database",                 // other accounts: every device and node would have to be looked at anew
    "central.password_checks_at_once",  // one thread each, started once
    "node.enabled",                     // as central's
    "node.listen",                      // tickets and devices name this address
    "node.name",                        // central knows the node, and the store its requests, under this name
    "node.advertise",                   // told to central when the node registers
    "node.central",                     // another central means other keys, accounts and tickets
    "node.central_key",
    "node.limits.input_arena_mb",   // claimed whole at start, mapped by every worker
    "node.limits.output_arena_mb",  // mapped by each worker when it attaches
    "node.journal.level",           // what was acknowledged already is, or is not, on disk
    "node.journal.max_mb",          // what is there already was taken for the old size
    "gears.enabled",                // its processes are started, or not, by `broker up`
    "node.store.enabled",           // requests under way have, or have not, a record
    "plugins.folder",               // trust in it is settled at start
    "plugins.trusted_keys",         // what serves already was trusted by other keys, or by none
};

std::string side(const std::string& value) {
  return value.empty() ? "(none)" : escaped(value);
}

}  // namespace

bool needs_restart(std::string_view key) {
  // A sink has a queue and a thread from the start on; all else of it changes live.
  if (key.starts_with("node.sinks[") && key.ends_with("].plugin")) return true;
  return std::find(kNeedsRestart.begin(), kNeedsRestart.end(), key) != kNeedsRestart.end();
}

std::vector<Change> compare(const std::vector<Value>& before, const std::vector<Value>& after) {
  std::map<std::string_view, const Value*> old;
  for (const Value& value : before) old.emplace(value.key, &value);
  std::vector<Change> changes;
  for (const Value& value : after) {
    const auto found = old.find(value.key);
    const std::string was = found == old.end() ? std::string() : found->second->value;
    if (was != value.value) changes.push_back({value.key, was, value.value, needs_restart(value.key)});
    if (found != old.end()) old.erase(found);
  }
  for (const Value& value : before) {
    if (old.contains(value.key) && !value.value.empty()) {
      changes.push_back({value.key, value.value, {}, needs_restart(value.key)});
    }
  }
  return changes;
}

std::vector<Change> compare(const Config& before, const Config& after) {
  return compare(values_of(before), values_of(after));
}

namespace {

/// The table that a setting belongs to, when tables of its kind come and go: "model echo@2"; else empty.
std::string group_of(const Value& value) {
  constexpr std::array<std::string_view, 4> kinds = {"env", "worker", "task", "model"};
  const bool grouped = value.path.size() > 2 && std::find(kinds.begin(), kinds.end(), value.path[0]) != kinds.end();
  return grouped ? value.path[0] + " " + escaped(value.path[1]) : std::string();
}

std::set<std::string> groups_of(const std::vector<Value>& values) {
  std::set<std::string> groups;
  for (const Value& value : values) groups.insert(group_of(value));
  return groups;
}

}  // namespace

std::vector<std::string> lines_of(const Config& before, const Config& after,
                                  const std::vector<std::string_view>& sections) {
  const std::vector<Value> old = values_of(before);
  const std::vector<Value> now = values_of(after);
  const std::set<std::string> old_groups = groups_of(old);
  const std::set<std::string> groups = groups_of(now);
  std::map<std::string, const Value*> settings;
  for (const Value& value : old) settings.emplace(value.key, &value);
  for (const Value& value : now) settings.insert_or_assign(value.key, &value);
  std::vector<std::string> lines;
  std::set<std::string> told;
  for (const Change& change : compare(old, now)) {
    const Value& setting = *settings.at(change.key);
    if (std::find(sections.begin(), sections.end(), setting.path.at(0)) == sections.end()) continue;
    const std::string group = group_of(setting);
    if (group.empty() || (old_groups.contains(group) && groups.contains(group))) {
      lines.push_back(shown(change));
    } else if (told.insert(group).second) {
      lines.push_back(group + (groups.contains(group) ? ": added" : ": removed"));
    }
  }
  return lines;
}

std::string shown(const Change& change) {
  return escaped(change.key) + ": " + side(change.before) + " -> " + side(change.after);
}

std::string restart_fault(const std::vector<Change>& changes) {
  std::string text;
  std::size_t count = 0;
  for (const Change& change : changes) {
    if (!change.needs_restart) continue;
    text += (text.empty() ? "" : "; ") + shown(change);
    ++count;
  }
  if (count == 0) return text;
  return text + (count == 1 ? " needs" : " need") + " a restart of the broker; nothing of this change is applied";
}

}  // namespace gearbox::config
