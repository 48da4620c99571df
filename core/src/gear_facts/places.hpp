// places.hpp: where the gear roles and the groups of one installation are to be found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/state_dir.hpp"

namespace gearbox::gear_facts {

inline constexpr std::size_t kMostGroups = 1000;  // of one host; more are not looked at, and that is said

inline std::filesystem::path observer_socket(const config::StateDir& state) {
  return state.run() / "observer.sock";
}
inline std::filesystem::path scheduler_socket(const config::StateDir& state) {
  return state.run() / "scheduler.sock";
}
inline std::filesystem::path executor_socket(const config::StateDir& state) {
  return state.run() / "executor.sock";
}
/// What the executor keeps: its record and the history of shifts.
inline std::filesystem::path executor_folder(const config::StateDir& state) {
  return state.root / "gears";
}
/// The driver of a group listens here: JSON lines.
std::filesystem::path group_socket(const config::StateDir& state, const std::string& group);

struct GroupNames {
  std::vector<std::string> names;  // sorted
  std::size_t left_out = 0;        // beyond kMostGroups
};

/// Groups whose sockets are there, answered or not. Files with other names are skipped: their names become paths and
/// lines of a terminal.
GroupNames find_groups(const config::StateDir& state);

}  // namespace gearbox::gear_facts
