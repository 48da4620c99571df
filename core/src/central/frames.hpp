// frames.hpp: the small frames that central reads and writes, each with a bound on its size and a deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::central {

namespace asio = boost::asio;

inline constexpr milliseconds kWriteWithin{10'000};
inline constexpr std::uint32_t kStrangerJsonBytes = 4096;  // before a key is proven, and of a device after that

/// The next frame, which has at most `max_json` bytes of JSON and no payload.
/// Errors: frame_too_large, said before anything is allocated; those of FrameStream::read_frame.
asio::awaitable<Outcome<wire::Frame>> read_small(std::shared_ptr<net::FrameStream> stream, milliseconds within,
                                                 std::uint32_t max_json);

/// One frame without payload, about `request` (nil: about the connection).
asio::awaitable<Outcome<void>> send(std::shared_ptr<net::FrameStream> stream, wire::FrameType type, RequestId request,
                                    std::string json);

/// When a peer may try again after `error`; 0: trying again will not help.
std::uint32_t retry_after_ms(const Error& error);

asio::awaitable<Outcome<void>> send_error(std::shared_ptr<net::FrameStream> stream, RequestId request, Error error,
                                          std::uint32_t retry_ms);

/// Says `error` about the connection, then waits a little until the peer has gone: closing with unread bytes in the
/// socket would reset the connection and lose the answer on its way.
asio::awaitable<void> refuse(std::shared_ptr<net::FrameStream> stream, Error error, std::uint32_t retry_ms);

}  // namespace gearbox::central
