// identity.hpp: who speaks on a session, once that is proven.
#pragma once

#include <cstdint>
#include <string>

#include "gearbox/base/ids.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::session {

struct Identity {
  PublicKey device;  // all zero but for its first bytes (the uid) on the unix socket
  std::string user;
  wire::Ticket ticket;  // what it may do; tasks {"*"} on the unix socket
  bool local = false;   // through the node's unix socket, by a user who may open it
};

}  // namespace gearbox::session
