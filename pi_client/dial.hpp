// dial.hpp: from an address and a pinned key to a sealed stream, and the questions that are asked on it before work
// begins.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include <array>
#include <memory>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/transport.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::client {

namespace asio = boost::asio;

/// What every dialling needs; all of it outlives the coroutines that use it.
struct Dialler {
  asio::any_io_executor executor;
  plugin::Transport* transport = nullptr;
  asio::thread_pool* pool = nullptr;  // connect() may block
};

/// Resolves `url` anew, connects, opens the secure channel. Errors: those of Transport::connect and of the channel.
asio::awaitable<Outcome<std::shared_ptr<net::FrameStream>>> dial(Dialler dialler, std::string url,
                                                                 std::array<std::byte, 32> server_key,
                                                                 milliseconds within);

/// Reads frames until one of type `wanted`, or `also` (0: none), comes; pings are answered, others skipped.
/// Errors: what the peer's error frame says, then *retry_after (may be null) is what it advises; timeout; those of
/// read_frame.
asio::awaitable<Outcome<wire::Frame>> expect(std::shared_ptr<net::FrameStream> stream, wire::FrameType wanted,
                                             milliseconds within, milliseconds* retry_after,
                                             wire::FrameType also = wire::FrameType{});

/// Logs in: sends Hello, signed over the channel's h, and waits for the answer. `ticket` is empty towards central.
asio::awaitable<Outcome<wire::HelloOk>> log_in(std::shared_ptr<net::FrameStream> stream, std::string user,
                                               const link::SigningKeys* keys, std::string ticket, milliseconds within,
                                               milliseconds* retry_after);

}  // namespace gearbox::client
