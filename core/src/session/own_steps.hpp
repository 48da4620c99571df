// own_steps.hpp: which steps a submit asks for: a task of the configuration, or the device's own list.
#pragma once

#include <memory>

#include "config/config.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"
#include "session/identity.hpp"

namespace gearbox::session {

/// The task by its name, or one made of the submit's own steps, whose inputs are the tensors that it announces. The
/// former keeps `config` alive, the latter does not need it.
/// Errors: bad_name, unknown_task (with the nearest name); not_allowed (the ticket says no); bad_input (a task and
/// steps, or steps that are no graph of this node's models: one place for each fault).
Outcome<std::shared_ptr<const config::TaskConfig>> task_of(const Identity& identity, const config::Snapshot& config,
                                                           const wire::Submit& submit);

}  // namespace gearbox::session
