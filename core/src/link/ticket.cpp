#include "gearbox/link/ticket.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::link {

namespace {

constexpr std::string_view kPurpose = "gearbox ticket 1";
constexpr std::size_t kMaxTicketBytes = 32 * 1024;

Error bad(std::string why) {
  return Error{Errc::bad_ticket, std::move(why)};
}

}  // namespace

std::string sign_ticket(const SigningKeys& central, const wire::Ticket& ticket) {
  const std::string json = wire::to_json(ticket);
  return to_hex(view_of(json)) + '.' + to_hex(sign(central, kPurpose, view_of(json)));
}

Outcome<wire::Ticket> check_ticket(std::string_view text, const TicketCheck& against) {
  const std::size_t dot = text.find('.');
  if (text.empty()) return bad("no ticket was given");
  if (text.size() > kMaxTicketBytes || dot == std::string_view::npos || dot % 2 != 0) return bad("not a ticket");
  std::string json(dot / 2, '\0');
  std::array<std::byte, 64> signature{};
  if (!from_hex(text.substr(0, dot), std::as_writable_bytes(std::span(json.data(), json.size()))) ||
      !from_hex(text.substr(dot + 1), signature)) {
    return bad("not a ticket");
  }
  // The key id must be read before the signature can be checked; nothing else of the text is used until then.
  auto ticket = wire::parse<wire::Ticket>(json);
  if (!ticket) return bad("its text is no ticket: " + ticket.error().detail);
  const auto key = against.keys->find(ticket.value().key_id);
  if (key == against.keys->end()) return bad("signed with unknown key '" + escaped(ticket.value().key_id, 64) + "'");
  if (!verify(key->second, kPurpose, view_of(json), signature)) return bad("the signature is wrong");
  if (ticket.value().node != against.node) return bad("it is for another node");
  if (ticket.value().device != against.device) return bad("it belongs to another device");
  if (against.central_unix_ms >= ticket.value().expires_unix_ms) {
    return Error{Errc::expired_ticket, "expired " +
                                           std::to_string(against.central_unix_ms - ticket.value().expires_unix_ms) +
                                           " ms ago; ask central for a new one"};
  }
  return ticket;
}

Outcome<void> check_task(const wire::Ticket& ticket, std::string_view task) {
  const bool allowed = std::any_of(ticket.tasks.begin(), ticket.tasks.end(),
                                   [task](const std::string& name) { return name == "*" || name == task; });
  if (allowed) return done();
  return Error{Errc::not_allowed, "the ticket does not allow task '" + escaped(task, kMaxNameBytes) + "'"};
}

}  // namespace gearbox::link
