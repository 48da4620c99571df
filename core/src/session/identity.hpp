// identity.hpp: who speaks on a session, once that is proven.
#pragma once

#include <cstdint>
#include <string>

#include "gearbox/base/ids.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::session {

struct Identity {
  /// Who it is and what it may do. On the unix socket: a device that is all zero but for its first bytes (the uid), a
  /// user "uid-N", tasks {"*"}.
  wire::Ticket ticket;
  bool local = false;  // through the node's unix socket, by a user who may open it
};

}  // namespace gearbox::session
