// Where to go and with what right: locate, located, ticket.
#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"
#include "link/json_writer.hpp"

namespace gearbox::wire {
using link::JsonWriter;
using link::ObjectReader;

namespace {
constexpr std::size_t kMaxAddresses = 32;
constexpr std::size_t kMaxTasksInTicket = 256;
}  // namespace

std::string to_json(const Locate& m) {
  JsonWriter writer;
  writer.add("task", m.task);
  if (!m.models.empty()) writer.add("models", m.models);
  if (!m.node.empty()) writer.add("node", m.node);
  if (!m.avoid.empty()) writer.add("avoid", m.avoid);
  return writer.take();
}
Outcome<void> from_json(std::string_view text, Locate& into) {
  return link::read_message<Locate>(text, into, [](ObjectReader& r, Locate& m) {
    r.read("task", m.task);
    r.read("models", m.models, kMaxOwnSteps);
    r.read("node", m.node);
    r.read("avoid", m.avoid, kMaxAvoided);
  });
}

std::string to_json(const Located& m) {
  return JsonWriter()
      .add("node", m.node)
      .add("addresses", m.addresses)
      .add("node_key", m.node_key)
      .add("ticket", m.ticket)
      .add("ticket_ttl_ms", m.ticket_ttl_ms)
      .take();
}
Outcome<void> from_json(std::string_view text, Located& into) {
  return link::read_message<Located>(text, into, [](ObjectReader& r, Located& m) {
    r.read("node", m.node);
    r.read("addresses", m.addresses, kMaxAddresses);
    r.read("node_key", m.node_key);
    r.read("ticket", m.ticket);
    r.read("ticket_ttl_ms", m.ticket_ttl_ms);
  });
}

std::string to_json(const Ticket& m) {
  JsonWriter writer;
  writer.add("device", m.device)
      .add("user", m.user)
      .add("tenant", m.tenant)
      .add("weight", m.weight)
      .add("max_requests", m.max_requests)
      .add("max_upload_bytes", m.max_upload_bytes)
      .add("max_held_bytes", m.max_held_bytes)
      .add("max_priority", m.max_priority)
      .add("tasks", m.tasks)
      .add("own_steps", m.own_steps)
      .add("node", m.node)
      .add("expires_unix_ms", m.expires_unix_ms)
      .add("key_id", m.key_id)
      .add("placement", m.placement);
  if (!m.ranks.empty()) writer.add("ranks", m.ranks);
  if (m.gears) writer.add("gears", m.gears);
  return writer.take();
}
Outcome<void> from_json(std::string_view text, Ticket& into) {
  return link::read_message<Ticket>(text, into, [](ObjectReader& r, Ticket& m) {
    r.read("device", m.device);
    r.read("user", m.user);
    r.read("tenant", m.tenant);
    r.read("weight", m.weight);
    r.read("max_requests", m.max_requests);
    r.read("max_upload_bytes", m.max_upload_bytes);
    r.read("max_held_bytes", m.max_held_bytes);
    r.read("max_priority", m.max_priority);
    r.read("tasks", m.tasks, kMaxTasksInTicket);
    r.read("own_steps", m.own_steps);
    r.read("node", m.node);
    r.read("expires_unix_ms", m.expires_unix_ms);
    r.read("key_id", m.key_id);
    r.read("placement", m.placement);
    r.read("ranks", m.ranks);
    r.read("gears", m.gears);
  });
}

}  // namespace gearbox::wire
