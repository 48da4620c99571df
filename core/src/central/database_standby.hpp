// database_standby.hpp: a central that waits until it is its turn to serve a database that several hosts share.
#pragma once

#include <functional>
#include <optional>

#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::central {

/// Calls `attempt` every half a second, on a thread of its own, until it says true: it is this one's turn. False of it
/// is another one's turn, overloaded: the database is away; other errors are logged and told in "status", which is
/// answered on StateDir::central_socket() meanwhile. `held` as in stand_by(). False: told to stop. Errors:
/// wrong_server_key and unsupported_version of `attempt`, which waiting does not mend; those of ControlServer::start.
Outcome<bool> stand_by_database(const config::StateDir& state, std::function<Outcome<bool>()> attempt,
                                std::optional<serving::HoldSignals>& held);

}  // namespace gearbox::central
