#include "gearbox/link/ticket.hpp"

#include <sodium.h>

#include <algorithm>
#include <optional>

#include "gearbox/base/text.hpp"

namespace gearbox::link {

namespace {

constexpr std::string_view kPurpose = "gearbox ticket 1";
constexpr std::size_t kMaxTicketBytes = 32 * 1024;

Error bad(std::string why) {
  return Error{Errc::bad_ticket, std::move(why)};
}

// A third shorter than hexadecimal, and a ticket is most of what central sends a device.
constexpr int kBase64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

std::string to_base64(ByteView bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    kBase64);
  text.pop_back();  // its terminating zero
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size(), '\0');
  std::size_t used = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(), nullptr,
                        &used, nullptr, kBase64) != 0) {
    return std::nullopt;
  }
  bytes.resize(used);
  // libsodium 1.0.18 takes any byte above 127 for a letter of the URL-safe kind.
  if (to_base64(view_of(bytes)) != text) return std::nullopt;
  return bytes;
}

}  // namespace

std::string sign_ticket(const SigningKeys& central, const wire::Ticket& ticket) {
  const std::string json = wire::to_json(ticket);
  return to_base64(view_of(json)) + '.' + to_base64(sign(central, kPurpose, view_of(json)));
}

Outcome<wire::Ticket> check_ticket(std::string_view text, const TicketCheck& against) {
  const std::size_t dot = text.find('.');
  if (text.empty()) return bad("no ticket was given");
  if (text.size() > kMaxTicketBytes || dot == std::string_view::npos) return bad("not a ticket");
  const std::optional<std::string> json = from_base64(text.substr(0, dot));
  const std::optional<std::string> signature = from_base64(text.substr(dot + 1));
  if (!json || !signature) return bad("not a ticket");
  // The key id must be read before the signature can be checked; nothing else of the text is used until then.
  auto ticket = wire::parse<wire::Ticket>(*json);
  if (!ticket) return bad("its text is no ticket: " + ticket.error().detail);
  const auto key = against.keys->find(ticket.value().key_id);
  if (key == against.keys->end()) return bad("signed with unknown key '" + escaped(ticket.value().key_id, 64) + "'");
  if (!verify(key->second, kPurpose, view_of(*json), view_of(*signature))) return bad("the signature is wrong");
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
