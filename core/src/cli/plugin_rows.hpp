// plugin_rows.hpp: what the running roles say of their plugins, brought together: one row for each build.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// One build in one state. Texts are escaped.
struct PluginRow {
  std::string name, kind, version, summary, checksum, state, reason, file;
  bool shipped = false;
  std::uint64_t since_unix_ms = 0;  // the first role's
  std::uint64_t calls = 0;          // of all roles together
  std::uint64_t faults = 0;
  std::uint64_t p99_us = 0;        // the slowest role's
  boost::json::array options;      // as the role told them: {"key", "default", "unit", "help"}
  std::vector<std::string> roles;  // "node", "central": where it is so
};

/// What one running role tells.
struct RolePlugins {
  std::string role;
  std::vector<PluginRow> rows;
};

/// The "plugins" of a role's status.
RolePlugins read_plugins(std::string_view role, const boost::json::object& status);

/// Asks node and central, the node first; a role that does not run is left out. Errors: timeout and the like of a role
/// that runs but does not answer, with its name.
Outcome<std::vector<RolePlugins>> ask_roles(const config::StateDir& state, milliseconds wait);

/// Rows of the first role, then what only the next ones have.
std::vector<PluginRow> brought_together(const std::vector<RolePlugins>& roles);

/// What `role` has in force under that name; `kind` empty: of any kind. nullptr: nothing.
const PluginRow* loaded_in(const RolePlugins& role, std::string_view kind, std::string_view name);
/// Does `role` hold back a file of that name because its build is barred?
bool barred_in(const RolePlugins& role, std::string_view kind, std::string_view name);

boost::json::object to_json(const PluginRow& row);

/// "3f9a01c2…": enough to tell two builds apart.
std::string short_checksum(std::string_view checksum);
/// "2.0 (3f9a01c2…)"
std::string build_text(const PluginRow& row);
/// "870 us", "1.2 ms", "3.0 s"; empty for 0.
std::string latency_text(std::uint64_t microseconds);
/// Local time, "2026-11-30 01:34:05"; empty for 0.
std::string time_text(std::uint64_t unix_ms);

}  // namespace gearbox::cli
