#include "node_link.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::client {

namespace {
constexpr unsigned kFailuresBeforeAsking = 3;
}

bool worth_retrying(Errc code) {
  switch (code) {
    case Errc::unreachable:
    case Errc::timeout:
    case Errc::closed:
    case Errc::io_error:
    case Errc::decrypt_failed:  // a byte changed on the way: a fresh channel is a fresh start
    case Errc::overloaded:
    case Errc::rate_limited:
    case Errc::no_space:
    case Errc::shutting_down:
      return true;
    default:
      return false;
  }
}

NodeLink::NodeLink(Dialler dialler, CentralAddress central, const Identity* identity, wire::Locate question,
                   LinkSettings settings)
    : dialler_(std::move(dialler)),
      central_(std::move(central)),
      identity_(identity),
      question_(std::move(question)),
      settings_(settings),
      started_(Clock::now()),
      bell_(dialler_.executor),
      tasks_(dialler_.executor),
      heard_(started_) {}

asio::awaitable<Outcome<NodeLink::Lease>> NodeLink::get(Instant deadline) {
  bool waited = false;
  for (;;) {
    if (cancelled_) co_return Error{Errc::cancelled, "interrupted"};
    if (connection_ && connection_->is_open()) {
      Lease lease;
      lease.connection = connection_;
      if (waited) {
        lease.locate = locate_took_;
        lease.connect = connect_took_;
      }
      co_return lease;
    }
    if (fatal_) co_return *fatal_;
    if (Clock::now() >= deadline) {
      co_return Error{Errc::timeout, last_error_ ? "no connection in time; last: " + describe(*last_error_)
                                                 : std::string("no connection in time")};
    }
    if (!connecting_) {
      connecting_ = true;
      tasks_.spawn(connect_loop());
    }
    waited = true;
    ++waiting_;
    co_await bell_.wait_until(deadline);
    --waiting_;
  }
}

void NodeLink::cancel() {
  cancelled_ = true;
  bell_.ring();
}

asio::awaitable<void> NodeLink::finish(milliseconds within) {
  cancel();
  co_await tasks_.all_done();
  if (connection_) co_await connection_->finish(within);
}

std::optional<NodePlace> NodeLink::leave() {
  if (!located_) return std::nullopt;
  NodePlace place{*located_, ticket_until_, heard(), std::exchange(connection_, nullptr)};
  note_left();
  just_left_ = located_->node;
  located_.reset();
  bell_.ring();  // whoever waits has the next connection asked for
  return place;
}

void NodeLink::take_over(NodePlace place) {
  located_ = std::move(place.located);
  ticket_until_ = place.ticket_until;
  heard_ = place.heard;
  connection_ = std::move(place.connection);
  connected_since_ = Clock::now();
}

void NodeLink::forget_place() {
  if (!located_) return;
  note_left();
  located_.reset();
}

std::optional<NodePlace> NodeLink::place_of(const std::string& node) const {
  const auto found = left_.find(node);
  return found == left_.end() ? std::nullopt : std::optional(found->second);
}

void NodeLink::note_left() {
  constexpr std::size_t kMost = 64;
  if (left_.size() >= kMost) left_.erase(left_.begin());
  left_[located_->node] = NodePlace{*located_, ticket_until_, heard(), nullptr};
}

bool NodeLink::may_leave() const {
  if (holds_ == 0) return true;
  return settings_.move_after.count() > 0 && Clock::now() >= after(heard(), settings_.move_after);
}

wire::Locate NodeLink::question() const {
  wire::Locate asked = question_;
  if (!asked.node.empty()) return asked;
  if (located_ && !may_leave()) {
    asked.node = located_->node;  // a fresh ticket for where it is
    return asked;
  }
  std::set<std::string> avoid = avoid_;
  if (!just_left_.empty()) avoid.insert(just_left_);
  // Central may still hear a node that this device does not reach.
  if (located_ && node_failures_ >= kFailuresBeforeAsking) avoid.insert(located_->node);
  for (const std::string& node : avoid) {
    if (asked.avoid.size() < wire::kMaxAvoided) asked.avoid.push_back(node);
  }
  return asked;
}

asio::awaitable<void> NodeLink::connect_loop() {
  if (const std::shared_ptr<NodeConnection> old = connection_) {
    // It is closed already; its coroutines end before a new one begins.
    last_error_ = old->why_closed();
    co_await old->finish(milliseconds(0));
    heard_ = heard();
    connection_.reset();
    const milliseconds pause =
        pause_before_retry(tries_++, settings_.shortest_pause, settings_.longest_pause, milliseconds{0});
    const Instant until = after(Clock::now(), pause);
    while (!cancelled_ && Clock::now() < until) co_await bell_.wait_until(until);
  }
  while (!cancelled_ && !fatal_) {
    milliseconds advised{0};
    Outcome<void> connected = co_await connect_once(&advised);
    if (connected) {
      trouble_.reset();
      break;
    }
    last_error_ = trouble_ = connected.error();
    if (give_up(connected.error(), advised)) {
      fatal_ = connected.error();
      break;
    }
    const milliseconds pause = pause_before_retry(tries_++, settings_.shortest_pause, settings_.longest_pause, advised);
    const Instant until = after(Clock::now(), pause);
    while (!cancelled_ && waiting_ > 0 && Clock::now() < until) co_await bell_.wait_until(until);
    if (waiting_ == 0) break;  // nobody wants it any more
  }
  connecting_ = false;
  bell_.ring();
}

bool NodeLink::give_up(const Error& error, milliseconds advised) {
  if (settings_.patient) return false;
  // Who says when to come again is there: a worker may take long to start. The request's own time bounds it.
  if (advised > milliseconds{0}) return false;
  const bool mendable = worth_retrying(error.code) || refused_by_node_;
  if (!mendable) return true;
  // A wrong address should not take a whole request's time to be reported.
  return !ever_worked_ && Clock::now() >= after(started_, settings_.first_contact);
}

asio::awaitable<Outcome<void>> NodeLink::connect_once(milliseconds* advised) {
  // The uploads and results of accepted requests are at the old node: it gets a few tries before central is asked for
  // another.
  if (!located_ || Clock::now() >= ticket_until_ || node_failures_ >= kFailuresBeforeAsking) {
    Outcome<void> asked = co_await ask_central(advised);
    if (!asked) co_return asked;
  }
  co_return co_await dial_node(advised);
}

asio::awaitable<Outcome<void>> NodeLink::ask_central(milliseconds* advised) {
  const Instant from = Clock::now();
  wire::Locate asked = question();
  const std::string wanted = asked.node;
  Outcome<wire::Located> located = co_await locate_in_turn(dialler_, central_, identity_, std::move(asked),
                                                           settings_.connect_within, advised, &central_turn_);
  if (located && !wanted.empty() && located.value().node != wanted) {
    located = Error{Errc::no_node, "central names another node than '" + wanted + "'"};
  }
  if (!located) {
    // An old ticket may still be good when central is away, or does not know the node any more: what runs goes on.
    const bool goes_on = worth_retrying(located.error().code) || !wanted.empty();
    if (located_ && goes_on && Clock::now() < ticket_until_) {
      node_failures_ = 0;
      co_return done();
    }
    refused_by_node_ = false;
    co_return std::move(located).error();
  }
  const Instant now = Clock::now();
  just_left_.clear();
  locate_took_ = elapsed(from, now);
  if (!located_ || located_->node != located.value().node) {
    if (located_) note_left();
    const auto known = left_.find(located.value().node);
    heard_ = known == left_.end() ? now : known->second.heard;
  }
  located_ = std::move(located).value();
  // Central's clock is not ours: the ticket ages here from the moment it came, and is renewed a little early.
  ticket_until_ = after(now, milliseconds(located_->ticket_ttl_ms) * 9 / 10);
  node_failures_ = 0;
  ever_worked_ = true;
  co_return done();
}

asio::awaitable<Outcome<void>> NodeLink::dial_node(milliseconds* advised) {
  const Instant from = Clock::now();
  const wire::Located to = *located_;  // it may be left while we wait
  const auto still_there = [this, &to] { return located_ && located_->node == to.node; };
  std::array<std::byte, 32> node_key{};
  Outcome<void> key = from_hex(to.node_key, node_key);
  if (!key) co_return Error{Errc::bad_frame, "central's key of node '" + to.node + "': " + key.error().detail};
  std::optional<Error> failed;
  for (const std::string& address : to.addresses) {
    auto stream = co_await dial(dialler_, address, node_key, settings_.connect_within);
    if (!stream) {
      failed = Error{stream.error().code, "node " + to.node + ": " + stream.error().detail};
      continue;
    }
    Outcome<wire::HelloOk> welcome = co_await log_in(stream.value(), identity_->user, &identity_->keys, to.ticket,
                                                     settings_.connect_within, advised);
    if (!welcome || !still_there()) {
      stream.value()->close();
      failed = welcome ? Error{Errc::closed, "node " + to.node + " was left"} : std::move(welcome).error();
      continue;
    }
    connection_ = NodeConnection::start(dialler_.executor, stream.value(), to.node, welcome.value(), settings_.pace);
    connected_since_ = Clock::now();
    connect_took_ = elapsed(from, connected_since_);
    refused_by_node_ = false;
    node_failures_ = 0;
    co_return done();
  }
  if (!still_there()) co_return *failed;
  ++node_failures_;
  const Errc code = failed->code;
  const bool ticket_at_fault =
      code == Errc::expired_ticket || code == Errc::bad_ticket || code == Errc::wrong_server_key;
  // Central's knowledge of a node that was set up anew is a second old at most: one fresh answer is worth a try, no
  // more.
  refused_by_node_ = ticket_at_fault && !refused_by_node_;
  if (ticket_at_fault || code == Errc::shutting_down) forget_place();
  co_return *failed;
}

}  // namespace gearbox::client
