// Tickets: texts that nobody signed, and signed ones with changed letters.
#include <map>
#include <string>

#include "fuzz.hpp"
#include "gearbox/link/ticket.hpp"

namespace gearbox::fuzz {
namespace {

struct Party {
  Party() {
    link::crypto_ready();
    central = link::make_signing_keys();
    device = link::make_signing_keys();
    node = to_text(link::make_signing_keys().public_key);
    trusted = {{"k1", central.public_key}};
    wire::Ticket ticket;
    ticket.device = device.public_key;
    ticket.user = "ada";
    ticket.tasks = {"read-text"};
    ticket.node = node;
    ticket.expires_unix_ms = 10'000;
    ticket.key_id = "k1";
    signed_text = link::sign_ticket(central, ticket);
  }
  link::TicketCheck against() const { return {&trusted, node, device.public_key, 9'999}; }

  link::SigningKeys central, device;
  std::string node, signed_text;
  std::map<std::string, PublicKey> trusted;
};

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  static const fuzz::Party party;
  fuzz::Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0) {
    fuzz::require(!link::check_ticket(input.text(), party.against()), "a ticket that nobody signed is refused");
    return 0;
  }
  std::string text = party.signed_text;
  for (auto count = input.take<std::uint8_t>() % 8; count > 0; --count) {
    char& letter = text[input.take<std::uint16_t>() % text.size()];
    letter = static_cast<char>(letter ^ input.take<char>());
  }
  if (input.take<std::uint8_t>() % 8 == 0) text.resize(input.take<std::uint16_t>() % (text.size() + 1));
  const auto checked = link::check_ticket(text, party.against());
  fuzz::require(checked.has_value() == (text == party.signed_text), "a ticket is taken when it is central's");
  return 0;
}
