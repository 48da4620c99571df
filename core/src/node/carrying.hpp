// carrying.hpp: a node between two ends that speak frames to each other, one on this host and one behind a sealed
// connection.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>

#include "gearbox/base/clock.hpp"
#include "gearbox/net/frame_stream.hpp"

namespace gearbox::node {

inline constexpr milliseconds kQuiet{2'000};   // of another node: then it is asked for a sign of life
inline constexpr milliseconds kSilent{4'000};  // after which it is gone
inline constexpr milliseconds kBodyLimit{10'000};
inline constexpr milliseconds kWriteLimit{10'000};

/// The types of frames that go on to the other end, beside errors; all others end here.
struct Carried {
  wire::FrameType open, data;
};

/// From one to the other, until either one's end, which it makes the other one's. A ping is answered, and a node that
/// is silent is asked for a sign of life. Both directions need one.
boost::asio::awaitable<Error> carry(std::shared_ptr<net::FrameStream> from, std::shared_ptr<net::FrameStream> to,
                                    Carried carried);

}  // namespace gearbox::node
