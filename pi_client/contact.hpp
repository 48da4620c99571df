// contact.hpp: a connection to central beside the question where a task is: commands that wait there for this device.
#pragma once

#include <memory>
#include <string>

#include "locate.hpp"

namespace gearbox::client {

/// Tells central that this device takes commands: those that wait come before the answer to what is asked next.
asio::awaitable<Outcome<void>> ask_for_commands(std::shared_ptr<net::FrameStream> stream, milliseconds within);

/// Carries out the command in `json` and sends its answer. Errors: bad_frame; those of the connection.
asio::awaitable<Outcome<void>> answer_command(Dialler dialler, CommandDesk* desk,
                                              std::shared_ptr<net::FrameStream> stream, std::string json,
                                              milliseconds within);

/// Logs in at the first of the centrals that answers, from number *turn on, takes what waits there, closes.
/// `identity` outlives the call and has a desk. Errors: as locate().
asio::awaitable<Outcome<void>> keep_in_touch(Dialler dialler, CentralAddress central, const Identity* identity,
                                             milliseconds within, std::size_t* turn);

}  // namespace gearbox::client
