// state_lock.hpp: one supervisor for a state folder.
#pragma once

#include <functional>
#include <string>

#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

/// The folder is this process's from here on, however it ends. Waits up to two seconds for what a killed supervisor
/// has left. `say` gets what is wrong all the same. Errors: not_allowed: another one has it; io_error.
Outcome<void> take_state(const config::StateDir& state, const std::function<void(std::string)>& say);

}  // namespace gearbox::supervisor
