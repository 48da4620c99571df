#include "cli/plugin_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "cli/json_facts.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr std::size_t kShortChecksum = 8;  // hexadecimal digits

bool same_build(const PluginRow& a, const PluginRow& b) {
  // A refused file may have told no name, and an unreadable one has no checksum: then its path tells it apart.
  return a.name == b.name && a.kind == b.kind && a.checksum == b.checksum && a.state == b.state && a.file == b.file;
}

bool is_called(const PluginRow& row, std::string_view kind, std::string_view name) {
  return row.name == name && (kind.empty() || row.kind == kind);
}

}  // namespace

RolePlugins read_plugins(std::string_view role, const json::object& status) {
  RolePlugins out{std::string(role), {}};
  for (const json::value& value : list_in(status, "plugins")) {
    if (!value.is_object()) continue;
    const json::object& from = value.get_object();
    PluginRow row;
    row.name = text_in(from, "name");
    row.kind = text_in(from, "kind");
    row.version = text_in(from, "version");
    row.summary = text_in(from, "summary");
    row.checksum = text_in(from, "checksum");
    row.state = text_in(from, "state");
    row.reason = text_in(from, "reason");
    row.file = text_in(from, "file");
    row.shipped = truth_in(from, "shipped");
    row.since_unix_ms = number_in(from, "since_unix_ms");
    row.calls = number_in(from, "calls");
    row.faults = number_in(from, "faults");
    row.p99_us = number_in(from, "p99_us");
    row.options = list_in(from, "options");
    row.roles.push_back(out.role);
    out.rows.push_back(std::move(row));
  }
  return out;
}

Outcome<std::vector<RolePlugins>> ask_roles(const config::StateDir& state, milliseconds wait) {
  std::vector<RolePlugins> roles;
  const std::array<std::pair<const char*, std::filesystem::path>, 3> sockets = {
      std::pair{"node", state.node_socket()}, std::pair{"central", state.central_socket()},
      std::pair{"scheduler", state.run() / "scheduler.sock"}};
  for (const auto& [role, socket] : sockets) {
    const auto answer = serving::ask_control_now(socket, R"({"command":"status"})", wait);
    if (!answer && answer.error().code == Errc::unreachable) continue;
    if (!answer) return Error{answer.error().code, std::string(role) + " does not answer: " + answer.error().detail};
    BOOST_OUTCOME_TRY(const json::object status, parse_object(answer.value()));
    roles.push_back(read_plugins(role, status));
  }
  return roles;
}

std::vector<PluginRow> brought_together(const std::vector<RolePlugins>& roles) {
  std::vector<PluginRow> rows;
  for (const RolePlugins& role : roles) {
    for (const PluginRow& row : role.rows) {
      const auto known =
          std::find_if(rows.begin(), rows.end(), [&](const PluginRow& other) { return same_build(row, other); });
      if (known == rows.end()) {
        rows.push_back(row);
        continue;
      }
      if (known->roles.back() != role.role) known->roles.push_back(role.role);
      known->calls += row.calls;
      known->faults += row.faults;
      known->p99_us = std::max(known->p99_us, row.p99_us);
    }
  }
  return rows;
}

const PluginRow* loaded_in(const RolePlugins& role, std::string_view kind, std::string_view name) {
  const auto found = std::find_if(role.rows.begin(), role.rows.end(), [&](const PluginRow& row) {
    return row.state == "loaded" && is_called(row, kind, name);
  });
  return found == role.rows.end() ? nullptr : &*found;
}

bool barred_in(const RolePlugins& role, std::string_view kind, std::string_view name) {
  return std::any_of(role.rows.begin(), role.rows.end(),
                     [&](const PluginRow& row) { return row.state == "barred" && is_called(row, kind, name); });
}

json::object to_json(const PluginRow& row) {
  json::array roles;
  for (const std::string& role : row.roles) roles.emplace_back(role);
  return json::object{{"name", row.name},
                      {"kind", row.kind},
                      {"version", row.version},
                      {"summary", row.summary},
                      {"checksum", row.checksum},
                      {"state", row.state},
                      {"reason", row.reason},
                      {"shipped", row.shipped},
                      {"file", row.file},
                      {"roles", std::move(roles)},
                      {"since_unix_ms", row.since_unix_ms},
                      {"calls", row.calls},
                      {"faults", row.faults},
                      {"p99_us", row.p99_us},
                      {"options", row.options}};
}

std::string short_checksum(std::string_view checksum) {
  return std::string(checksum.substr(0, kShortChecksum)) + "…";
}

std::string build_text(const PluginRow& row) {
  return row.version + " (" + short_checksum(row.checksum) + ")";
}

std::string latency_text(std::uint64_t microseconds) {
  if (microseconds == 0) return {};
  if (microseconds < 1000) return std::to_string(microseconds) + " us";
  std::array<char, 32> out;
  const double ms = static_cast<double>(microseconds) / 1000;
  std::snprintf(out.data(), out.size(), ms < 1000 ? "%.1f ms" : "%.1f s", ms < 1000 ? ms : ms / 1000);
  return out.data();
}

std::string time_text(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm local{};
  std::array<char, 32> out;
  if (unix_ms == 0 || ::localtime_r(&seconds, &local) == nullptr) return {};
  return {out.data(), std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S", &local)};
}

}  // namespace gearbox::cli
