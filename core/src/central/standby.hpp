// standby.hpp: a central that waits until the one that serves the same state folder has ended.
#pragma once

#include <memory>
#include <optional>

#include "central/central_lock.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::central {

/// Waits for `lock`, which `holder` has. Meanwhile answers "status" on config::standby_socket(), and says so when the
/// holder lives and does not answer: then nobody takes over, since it may wake up and go on writing at any moment.
/// `held`: signals are held by the caller; they are let through while this waits, and held again when it returns.
/// True: the lock is ours, and all that its holder had open is closed. False: told to stop. Errors: those of
/// CentralLock::take and ControlServer::start.
Outcome<bool> stand_by(const config::StateDir& state, CentralLock& lock, int holder,
                       std::optional<serving::HoldSignals>& held);

}  // namespace gearbox::central
