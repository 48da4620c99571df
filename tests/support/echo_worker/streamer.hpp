// streamer.hpp: what `--do stream` does: answers in parts, as the first input says.
#pragma once

#include "gearbox/shm/endpoint.hpp"

namespace gearbox::echo {

/// Serves until the node has gone; several calls at once, in turn. Words in a call's first input:
///   count=N   parts (default 3)      size=N    bytes of each: its number as u32le, then the number's low byte again
///   die=N     ends itself when N parts have been let go of    fail=N   fails with N parts made
///   deaths=N  only so often    later=N   parts when it is run again    differs=N   the part that is another one then
///   seed=1    of 12 bytes or more: the call's seed behind the number
///   full=MS   says that it is overloaded for so long    slot=N    only the worker of that slot does
/// Returns the exit code.
int stream(shm::WorkerEndpoint& endpoint, std::uint32_t slot);

}  // namespace gearbox::echo
