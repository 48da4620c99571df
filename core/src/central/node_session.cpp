// A node that is logged in: a report a second, answered with central's time, ticket keys and revocations.
#include <spdlog/spdlog.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

#include "central/frames.hpp"
#include "central/server_state.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/ticket.hpp"
#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {

constexpr std::size_t kMaxAddresses = 8;
constexpr std::size_t kMaxAddressBytes = 256;
// 67 bytes each: what fits into one frame's JSON. Tickets are short-lived, so the newest revocations are what matters.
constexpr std::size_t kMaxRevoked = 800;

Outcome<void> check_report(const wire::NodeReport& report) {
  if (report.addresses.empty() || report.addresses.size() > kMaxAddresses) {
    return Error{Errc::bad_input, "node_report: 1 to " + std::to_string(kMaxAddresses) + " addresses are wanted"};
  }
  for (const std::string& address : report.addresses) {
    if (address.empty() || address.size() > kMaxAddressBytes)
      return Error{Errc::bad_input, "node_report: an address is too long"};
  }
  std::array<std::byte, 32> key{};
  if (!from_hex(report.channel_key, key))
    return Error{Errc::bad_input, "node_report: channel_key is not 32 bytes of hexadecimal"};
  for (const wire::TaskReport& task : report.tasks) {
    BOOST_OUTCOME_TRY(check_name("task", task.name));
  }
  return done();
}

/// Reads revocations again when somebody changed the accounts. Errors: io_error.
Outcome<void> refresh_revoked(ServerState& state, std::int64_t version) {
  if (version == state.revoked_version) return done();
  BOOST_OUTCOME_TRY(const auto keys, state.accounts->revoked(kMaxRevoked));
  state.revoked.clear();
  for (const PublicKey& key : keys) state.revoked.push_back(to_text(key));
  state.revoked_version = version;
  return done();
}

/// When somebody changed the accounts: is the node still one of ours, and who is revoked by now?
/// Errors: auth_failed (removed); overloaded; io_error.
Outcome<void> look_at_accounts(ServerState& state, const NodeEntry& node, std::int64_t& seen_version) {
  BOOST_OUTCOME_TRY(const std::int64_t version, state.accounts->version());
  if (version != seen_version) {
    const Outcome<NodeEntry> still = state.accounts->node(node.key);
    if (!still) {
      if (still.error().code == Errc::auth_failed) state.registry.forget(node.key);
      return still.error();
    }
    seen_version = version;
  }
  return refresh_revoked(state, version);
}

/// Takes one report. Errors: bad_frame, bad_input, bad_name; auth_failed (removed); closed (a newer log-in took its
/// place).
Outcome<wire::ReportOk> take_report(ServerState& state, std::string_view json, const NodeEntry& node,
                                    NodeSession session, std::int64_t& seen_version) {
  BOOST_OUTCOME_TRY(auto report, wire::parse<wire::NodeReport>(json));
  BOOST_OUTCOME_TRY(check_report(report));
  const Outcome<void> fresh = look_at_accounts(state, node, seen_version);
  // A node that was let in stays while the database is away: what was last known of revocations holds.
  const bool away = !fresh && fresh.error().code == Errc::overloaded && seen_version >= 0;
  if (!fresh && !away) return fresh.error();
  const Instant now = Clock::now();
  if (!state.registry.reported(session, std::move(report), now)) {
    return Error{Errc::closed, "a newer connection of this node has taken its place"};
  }
  ++state.counters.node_reports;
  wire::ReportOk answer;
  answer.central_unix_ms = state.time.unix_ms(now);
  answer.ticket_keys[state.key_id] = to_text(state.signing.public_key);
  answer.revoked = state.revoked;
  return answer;
}

/// For a scheduler of the node's host; in its name, which we know. What goes wrong is the answer.
std::string answer_lease(const ServerState& state, const std::string& text, const NodeEntry& node) {
  const auto answer = [&]() -> Outcome<boost::json::object> {
    boost::system::error_code bad;
    boost::json::value request = boost::json::parse(text, bad);
    if (bad || !request.is_object()) return Error{Errc::bad_frame, "lease_ask: no JSON object"};
    if (!state.lease) return Error{Errc::not_found, "this central keeps no leases"};
    request.get_object()["holder"] = node.name;
    return state.lease(request.get_object());
  }();
  if (answer) return boost::json::serialize(answer.value());
  return boost::json::serialize(
      boost::json::object{{"code", static_cast<unsigned>(answer.error().code)}, {"detail", answer.error().detail}});
}

/// The way from a node to another one, and a ticket for one thing there: ranks of one group, or to decide on its
/// groups. Errors: bad_frame, bad_name; no_node: it is not there.
Outcome<wire::Located> way_to_node(const ServerState& state, const std::string& text, const NodeEntry& node) {
  boost::system::error_code bad;
  const boost::json::value request = boost::json::parse(text, bad);
  if (bad || !request.is_object()) return Error{Errc::bad_frame, "ranks_ask: no JSON object"};
  std::string wanted;
  wire::Ticket ticket;
  link::ObjectReader reader(request.get_object());
  reader.read("node", wanted, kMaxNameBytes);
  reader.read("group", ticket.ranks, kMaxNameBytes);
  reader.read("gears", ticket.gears);
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(check_name("node", wanted));
  if (ticket.gears && !ticket.ranks.empty()) return Error{Errc::bad_frame, "ranks_ask: one thing at a time"};
  if (!ticket.gears) {
    BOOST_OUTCOME_TRY(check_name("group", ticket.ranks));
  }
  const Instant now = Clock::now();
  const auto& nodes = state.registry.nodes();
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.second.name == wanted; });
  if (found == nodes.end() || !state.registry.alive(found->second, now)) {
    return Error{Errc::no_node, "node '" + wanted + "' is not there"};
  }
  const NodeState& other = found->second;
  ticket.device = node.key;
  ticket.user = node.name;
  ticket.node = to_text(other.key);
  ticket.expires_unix_ms = state.time.unix_ms(now) + state.config.ticket_ttl.count();
  ticket.key_id = state.key_id;
  wire::Located way;
  way.node = other.name;
  way.addresses = other.report.addresses;
  way.node_key = other.report.channel_key;
  way.ticket = link::sign_ticket(state.signing, ticket);
  way.ticket_ttl_ms = static_cast<std::uint32_t>(state.config.ticket_ttl.count());
  return way;
}

std::string answer_way(const ServerState& state, const std::string& text, const NodeEntry& node) {
  const Outcome<wire::Located> way = way_to_node(state, text, node);
  return way ? wire::to_json(way.value()) : wire::to_json(wire::to_message(way.error()));
}

}  // namespace

asio::awaitable<void> serve_node(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                 NodeEntry node) {
  const NodeSession session = state->registry.connected(node.key, node.name);
  state->nodes_open.insert(stream);
  spdlog::info("event=node_connected node={} key={} peer={}", node.name, to_text(node.key), escaped(stream->peer()));
  // Not offered after node_silent; a good while later its connection is given up as well.
  const milliseconds patience = std::max(milliseconds{5000}, 3 * state->config.node_silent);
  wire::HelloOk welcome;
  welcome.name = "central";
  welcome.idle_ms = static_cast<std::uint32_t>(patience.count());
  std::string welcome_text = wire::to_json(welcome);
  Outcome<void> good = co_await send(stream, wire::FrameType::hello_ok, RequestId(), std::move(welcome_text));

  std::int64_t seen_version = -1;  // of the accounts, when it was last seen to be registered
  while (good && !state->stopping) {
    Outcome<wire::Frame> frame = co_await read_small(stream, patience, wire::kMaxJsonBytes);
    if (!frame) {
      good = frame.error();
      break;
    }
    const RequestId request = frame.value().header.request;
    if (frame.value().header.type == wire::FrameType::ping) {
      good = co_await send(stream, wire::FrameType::pong, request, std::string());
      continue;
    }
    if (frame.value().header.type == wire::FrameType::lease_ask) {
      std::string told = answer_lease(*state, frame.value().json, node);
      good = co_await send(stream, wire::FrameType::lease_told, request, std::move(told));
      continue;
    }
    if (frame.value().header.type == wire::FrameType::ranks_ask) {
      std::string told = answer_way(*state, frame.value().json, node);
      good = co_await send(stream, wire::FrameType::ranks_told, request, std::move(told));
      continue;
    }
    if (frame.value().header.type != wire::FrameType::node_report) continue;  // of a later version
    Outcome<wire::ReportOk> answer = take_report(*state, frame.value().json, node, session, seen_version);
    if (!answer) {
      good = answer.error();
      co_await refuse(stream, answer.error(), retry_after_ms(answer.error()));
      break;
    }
    std::string text = wire::to_json(answer.value());
    good = co_await send(stream, wire::FrameType::report_ok, request, std::move(text));
  }
  state->registry.disconnected(session);
  state->nodes_open.erase(stream);
  spdlog::info("event=node_disconnected node={} reason=\"{}\"", node.name,
               good ? std::string("central stops") : escaped(describe(good.error())));
}

}  // namespace gearbox::central
