// dial_unix.hpp: connects a stream socket of the unix domain; blocking, for the command line and for workers' start.
#pragma once

#include <filesystem>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::net {

/// A connected descriptor, non-blocking and close-on-exec, which the caller owns (FrameStream::adopt takes it over).
/// `within` bounds the wait for a listener whose queue is full.
/// Errors: unreachable (nobody listens there, or not permitted), timeout; bad_input for a path that is too long.
Outcome<int> dial_unix(const std::filesystem::path& path, milliseconds within);

}  // namespace gearbox::net
