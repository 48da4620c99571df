// running_config.hpp: what configuration the running roles have, and how the folder differs from it.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/compare.hpp"
#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// What one role answers to {"command":"config"}.
struct RunningConfig {
  std::string folder;  // that it reads
  std::string digest;  // of what is in force
  std::uint64_t since_unix_ms = 0;
  std::string error;  // why the folder's last change was refused, one line for each fault; empty: it was not
  std::vector<config::Value> values;
};

struct RoleConfig {
  std::string role;  // "central", "node"
  Outcome<RunningConfig> running;
};

/// Asks one role, piece by piece. Errors: unreachable (it does not run); timeout, bad_frame, what it answered.
Outcome<RunningConfig> ask_running_config(const std::filesystem::path& socket, milliseconds within);

/// Asks central and node of this installation.
std::vector<RoleConfig> ask_roles(const config::StateDir& state);

/// One role against the folder.
struct RoleDiff {
  enum class State {
    in_force,  // it runs what the folder says
    not_yet,   // no setting differs, but the files are not those that it has read
    differs,   // see `changes`
    not_running,
    no_answer,  // see `reason`
  };
  std::string role;
  State state = State::not_running;
  std::string reason;
  std::vector<config::Change> changes;  // before: the role's, after: the folder's
  RunningConfig running;                // when it runs
};

std::vector<RoleDiff> diff_of(const config::Config& folder, const std::vector<RoleConfig>& roles);

/// Does at least one role run, does each that runs have the folder in force, and did none refuse it?
bool all_agree(const std::vector<RoleDiff>& roles);

/// For people: a line for each role, below it what differs and what was refused. `now_unix_ms`: to say since when.
std::string text_of(const std::vector<RoleDiff>& roles, std::uint64_t now_unix_ms);
boost::json::object json_of(const std::vector<RoleDiff>& roles);

/// {"folder", "digest", "since_unix_ms", "error", "values": {key: value}}
boost::json::object json_of(const RunningConfig& running);

/// The values as nested objects, numbers and truths as such: {"node": {"limits": {"max_upload_mb": 64}}}.
boost::json::object nested(const std::vector<config::Value>& values);

}  // namespace gearbox::cli
