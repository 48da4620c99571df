// local_socket.hpp: connecting to sockets in the state folder's run/, whatever the length of the path, and who is at
// the other end.
#pragma once

#include <filesystem>

#include "gearbox/base/outcome.hpp"

namespace gearbox::serving {

/// Connects to `path` at once or not at all. The caller owns the descriptor (non-blocking, close-on-exec).
/// Errors: unreachable: nobody listens there (or its queue is full).
Outcome<int> connect_local(const std::filesystem::path& path);

struct PeerIdentity {
  int pid = 0;
  unsigned uid = 0;
};
/// Who made the connection, as the kernel knows it. Errors: io_error.
Outcome<PeerIdentity> peer_of(int descriptor);

}  // namespace gearbox::serving
