// control_client.hpp: one question to a role's control socket and its answer: {"command": ...} in a control frame.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <filesystem>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/net/frame_stream.hpp"

namespace gearbox::serving {

/// Connects to `socket`. Errors: unreachable.
Outcome<std::shared_ptr<net::FrameStream>> dial_control(boost::asio::any_io_executor executor,
                                                        const std::filesystem::path& socket);

/// Sends `command` (JSON) over `stream` and waits for the answer. Errors: what the role answered; timeout; closed.
boost::asio::awaitable<Outcome<std::string>> exchange_control(std::shared_ptr<net::FrameStream> stream,
                                                              std::string command, milliseconds within);

/// Both, on a connection of its own.
boost::asio::awaitable<Outcome<std::string>> ask_control(boost::asio::any_io_executor executor,
                                                         std::filesystem::path socket, std::string command,
                                                         milliseconds within);

/// The same for the command line: blocks up to `within`; makes an io_context of its own.
Outcome<std::string> ask_control_now(const std::filesystem::path& socket, const std::string& command,
                                     milliseconds within);

}  // namespace gearbox::serving
