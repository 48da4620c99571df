// central_files.hpp: files of the state folder that are central's alone, or by which two of them know of each other.
#pragma once

#include "config/state_dir.hpp"

namespace gearbox::config {

/// Control frames of a central that stands by.
inline std::filesystem::path standby_socket(const StateDir& state) {
  return state.run() / "standby.sock";
}

/// Locked by the one that serves.
inline std::filesystem::path central_lock(const StateDir& state) {
  return state.run() / "central.lock";
}

}  // namespace gearbox::config
