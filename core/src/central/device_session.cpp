// A device that is logged in: "where is task T?", the answer with a ticket, the end.
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "central/frames.hpp"
#include "central/server_state.hpp"
#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/ticket.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {

constexpr std::size_t kMaxLastSeen =
    65536;  // keys noted between two writes; more are not noted, which only people miss

constexpr std::size_t kMaxAddress = 128;
constexpr std::size_t kMaxAgent = 64;

asio::awaitable<Outcome<wire::Frame>> next_frame(std::shared_ptr<ServerState> state,
                                                 std::shared_ptr<FrameStream> stream,
                                                 std::shared_ptr<std::deque<wire::Frame>> waiting) {
  if (!waiting->empty()) {
    wire::Frame first = std::move(waiting->front());
    waiting->pop_front();
    co_return first;
  }
  Outcome<wire::Frame> frame = co_await read_small(stream, state->config.idle, kStrangerJsonBytes);
  co_return frame;
}

wire::Located located(ServerState& state, const NodeState& node, const wire::Locate& asked, const User& user,
                      const PublicKey& device, std::uint64_t placement) {
  wire::Ticket ticket;
  ticket.placement = placement;
  ticket.device = device;
  ticket.user = user.name;
  ticket.tenant = user.tenant;
  ticket.weight = user.weight;
  ticket.max_requests = user.max_requests;
  ticket.max_upload_bytes = user.max_upload_bytes;
  ticket.max_held_bytes = user.max_held_bytes;
  ticket.max_priority = user.max_priority;
  // A right to what was asked for, nothing else.
  if (asked.task.empty()) {
    ticket.own_steps = true;
  } else {
    ticket.tasks = {asked.task};
  }
  ticket.node = to_text(node.key);
  ticket.expires_unix_ms = state.time.unix_ms(Clock::now()) + state.config.ticket_ttl.count();
  ticket.key_id = state.key_id;
  wire::Located answer;
  answer.node = node.name;
  answer.addresses = node.report.addresses;
  answer.node_key = node.report.channel_key;
  answer.ticket = link::sign_ticket(state.signing, ticket);
  answer.ticket_ttl_ms = static_cast<std::uint32_t>(state.config.ticket_ttl.count());
  return answer;
}

/// Errors: those of Placement::place and Accounts::login (revoked or disabled since the login).
Outcome<wire::Located> locate(ServerState& state, std::string_view json, const User& user, const PublicKey& device,
                              std::int64_t login_version) {
  BOOST_OUTCOME_TRY(const auto asked, wire::parse<wire::Locate>(json));
  BOOST_OUTCOME_TRY(const std::int64_t version, state.accounts->version());
  std::optional<User> fresh;
  if (version != login_version) {
    BOOST_OUTCOME_TRY(fresh, state.accounts->login(user.name, device));
  }
  const User& current = fresh ? *fresh : user;
  const Instant begun = Clock::now();
  PlacementNote note;
  const bool own = asked.task.empty() && !asked.models.empty();
  if (!asked.node.empty()) {  // nothing is chosen
    BOOST_OUTCOME_TRY(const NodeState* holder, Placement::holder(state.registry, asked, current));
    return located(state, *holder, asked, current, device, 0);
  }
  BOOST_OUTCOME_TRY(const NodeState* node,
                    own ? state.placement.place_steps(state.registry, asked.models, current, begun, note, asked.avoid)
                        : state.placement.place(state.registry, asked.task, current, begun, note, asked.avoid));
  note.device = device;
  note.user = current.name;
  note.tenant = current.tenant;
  note.task = own ? wire::kOwnSteps : std::string_view(asked.task);
  note.at_unix_ms = state.time.unix_ms(begun);
  note.config = state.config_digest;
  const std::uint64_t placement = state.placements.add(std::move(note));
  spdlog::info("event=located task={} user={} device={} node={} queued={} running={} offered={} balancer={}",
               own ? "-" : asked.task, current.name, to_text(device).substr(0, 16), node->name, node->report.queued,
               node->report.running, node->offered, state.config.balancer);
  return located(state, *node, asked, current, device, placement);
}

}  // namespace

asio::awaitable<void> serve_device(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream, User user,
                                   PublicKey device, std::string agent) {
  const Outcome<std::int64_t> version = state->accounts->version();
  if (!version) {
    co_await refuse(stream, version.error(), retry_after_ms(version.error()));
    co_return;
  }
  if (state->last_seen.size() < kMaxLastSeen) {
    state->last_seen[device] = {state->time.unix_ms(Clock::now()), escaped(stream->peer(), kMaxAddress),
                                escaped(agent, kMaxAgent)};
  }
  wire::HelloOk welcome;
  welcome.name = "central";
  welcome.idle_ms = static_cast<std::uint32_t>(state->config.idle.count());
  std::string welcome_text = wire::to_json(welcome);
  Outcome<void> sent = co_await send(stream, wire::FrameType::hello_ok, RequestId(), std::move(welcome_text));

  const auto waiting = std::make_shared<std::deque<wire::Frame>>();
  while (sent && !state->stopping) {
    Outcome<wire::Frame> frame = co_await next_frame(state, stream, waiting);
    if (!frame) {
      if (frame.error().code == Errc::frame_too_large) co_await refuse(stream, frame.error(), 0);
      break;  // closed, idle for too long, and malformed all end here
    }
    const RequestId request = frame.value().header.request;
    if (frame.value().header.type == wire::FrameType::ping) {
      sent = co_await send(stream, wire::FrameType::pong, request, std::string());
      continue;
    }
    if (frame.value().header.type == wire::kCommand) {
      sent = co_await deliver_commands(state, stream, device, waiting);
      continue;
    }
    if (frame.value().header.type == wire::kCommandAnswer) {  // a late one
      Outcome<void> taken = co_await take_command_answer(state, device, std::move(frame.value().json));
      if (!taken && taken.error().code == Errc::bad_frame) break;
      continue;
    }
    if (frame.value().header.type != wire::FrameType::locate) continue;  // of a later version

    Outcome<wire::Located> answer = locate(*state, frame.value().json, user, device, version.value());
    if (answer) {
      stop_point("central.located");
      std::string text = wire::to_json(answer.value());
      sent = co_await send(stream, wire::FrameType::located, request, std::move(text));
      ++state->counters.located;
      break;  // it has all it needs: the connection is given to the next one
    }
    ++state->counters.not_located;
    if (state->stranger_log.allows(Clock::now())) {
      spdlog::info("event=not_located user={} device={} reason=\"{}\"{}", user.name, to_text(device).substr(0, 16),
                   escaped(describe(answer.error())), state->stranger_log.note());
    }
    if (request.is_nil()) {  // an answer about the connection, which then ends
      co_await refuse(stream, answer.error(), retry_after_ms(answer.error()));
      break;
    }
    sent = co_await send_error(stream, request, answer.error(), retry_after_ms(answer.error()));
  }
}

}  // namespace gearbox::central
