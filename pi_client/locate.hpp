// locate.hpp: asks central which node can do a task, or own steps. One short connection for each question.
#pragma once

#include <memory>

#include "command_desk.hpp"
#include "dial.hpp"
#include "options.hpp"

namespace gearbox::client {

/// Who asks.
struct Identity {
  std::string user;
  link::SigningKeys keys;
  std::shared_ptr<CommandDesk> desk{};  // carries out what people ask for; none: nothing is
};

/// Logs in at central, asks, closes. `identity` outlives the call.
/// Errors: those of dial(); what central refuses with (auth_failed, unknown_task, no_node, rate_limited: *retry_after
/// set); bad_frame when the answer is unusable.
asio::awaitable<Outcome<wire::Located>> locate(Dialler dialler, CentralPlace central, const Identity* identity,
                                               wire::Locate question, milliseconds within, milliseconds* retry_after);

/// The same of several centrals, each for `within` at most, from number *turn on (0: `central` itself) and around,
/// until one names a node: *turn is that one then. Errors: of those that answered, what the first of them said; else as
/// the last one failed.
asio::awaitable<Outcome<wire::Located>> locate_in_turn(Dialler dialler, CentralAddress central,
                                                       const Identity* identity, wire::Locate question,
                                                       milliseconds within, milliseconds* retry_after,
                                                       std::size_t* turn);

}  // namespace gearbox::client
