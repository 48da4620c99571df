// pause.hpp: how long to wait before something is tried again.
#pragma once

#include "gearbox/base/clock.hpp"

namespace gearbox::client {

/// The `tries`-th pause in a row (0 is the first): random in the upper half of min(shortest * 2^tries, longest), so
/// that many clients of a server that comes back return spread over time. Never shorter than `advised`.
milliseconds pause_before_retry(unsigned tries, milliseconds shortest, milliseconds longest, milliseconds advised);

}  // namespace gearbox::client
