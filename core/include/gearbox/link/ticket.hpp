// ticket.hpp: central signs, a node checks; see wire::Ticket.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gearbox/link/keys.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::link {

std::string sign_ticket(const SigningKeys& central, const wire::Ticket& ticket);

/// What a node holds a ticket against.
struct TicketCheck {
  const std::map<std::string, PublicKey>* keys;  // by key id
  std::string node;                              // own identity key, hex
  PublicKey device;                              // who presents it, already proven by signature over h
  std::int64_t central_unix_ms = 0;              // central's time now, aged on the monotonic clock
};

/// Errors: bad_ticket (shape, signature, unknown key id, other node, other device: the detail says which),
/// expired_ticket.
Outcome<wire::Ticket> check_ticket(std::string_view text, const TicketCheck& against);

/// Does the ticket allow `task`? Errors: not_allowed.
Outcome<void> check_task(const wire::Ticket& ticket, std::string_view task);

}  // namespace gearbox::link
