#include "load.hpp"

#include <algorithm>

namespace gearbox::load {

namespace {

constexpr milliseconds kWithin{20'000};
constexpr milliseconds kLook{100};  // how soon a cut is noticed on a connection that waits for its turn

std::int64_t unix_us(Instant at) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<microseconds>(wall).count() - elapsed(at, Clock::now()).count();
}

}  // namespace

Load::Load(Setup setup, std::vector<Piece> pieces)
    : setup_(std::move(setup)),
      pieces_(std::move(pieces)),
      bell_(setup_.dialler.executor),
      tasks_(setup_.dialler.executor) {
  for (link::SigningKeys& keys : setup_.devices)
    identities_.push_back(client::Identity{setup_.central.user, std::move(keys)});
}

asio::awaitable<void> Load::run() {
  std::size_t begun = 0;
  for (std::size_t device = 0; device < identities_.size(); ++device) {
    // Turns of different connections come one after the other, not all at once.
    for (std::size_t i = 0; i < setup_.open; ++i) tasks_.spawn(keep_asking(device, milliseconds(7 * begun++)));
    for (std::size_t i = 0; i < setup_.fresh; ++i) tasks_.spawn(ask_anew(device, milliseconds(7 * begun++)));
  }
  co_await tasks_.all_done();
}

void Load::stop() {
  stopping_ = true;
  bell_.ring();
}

asio::awaitable<bool> Load::wait_turn(Instant* turn, microseconds every, const client::NodeConnection* meanwhile) {
  if (every == microseconds{0}) {
    *turn = Clock::now();
    co_return !stopping_;
  }
  *turn += every;
  while (!stopping_ && Clock::now() < *turn) {
    if (meanwhile != nullptr && !meanwhile->is_open()) co_return false;
    co_await bell_.wait_until(meanwhile == nullptr ? *turn : std::min(*turn, after(Clock::now(), kLook)));
  }
  co_return !stopping_;
}

asio::awaitable<Outcome<std::shared_ptr<client::NodeConnection>>> Load::connect(std::size_t device) {
  const client::Identity* const identity = &identities_[device];
  milliseconds retry_after{0};
  wire::Locate question{.task = pieces_.front().task};
  Outcome<wire::Located> located =
      co_await client::locate(setup_.dialler, setup_.central, identity, std::move(question), kWithin, &retry_after);
  if (!located) co_return std::move(located).error();
  std::array<std::byte, 32> node_key{};
  Outcome<void> key = from_hex(located.value().node_key, node_key);
  if (!key) co_return std::move(key).error();
  auto stream = co_await client::dial(setup_.dialler, located.value().addresses.front(), node_key, kWithin);
  if (!stream) co_return std::move(stream).error();
  Outcome<wire::HelloOk> welcome = co_await client::log_in(stream.value(), identity->user, &identity->keys,
                                                           located.value().ticket, kWithin, &retry_after);
  if (!welcome) co_return std::move(welcome).error();
  client::Pace pace;
  co_return client::NodeConnection::start(setup_.dialler.executor, std::move(stream).value(), located.value().node,
                                          welcome.value(), pace);
}

asio::awaitable<void> Load::keep_asking(std::size_t device, milliseconds phase) {
  Instant turn = after(Clock::now(), phase);
  while (!stopping_) {
    auto connection = co_await connect(device);
    if (!connection) {
      failed(connection.error());
      co_await bell_.wait_until(after(Clock::now(), milliseconds(100)));
      continue;
    }
    bool more = true;
    while (more) {
      more = co_await wait_turn(&turn, setup_.open_every, connection.value().get());
      if (more) more = co_await ask(connection.value(), turn, 'o');
    }
    co_await connection.value()->finish(milliseconds(2'000));
  }
}

asio::awaitable<void> Load::ask_anew(std::size_t device, milliseconds phase) {
  Instant turn = after(Clock::now(), phase);
  for (;;) {
    const bool more = co_await wait_turn(&turn, setup_.fresh_every);
    if (!more) break;
    auto connection = co_await connect(device);
    if (!connection) {
      failed(connection.error());
      continue;
    }
    co_await ask(connection.value(), turn, 'f');
    co_await connection.value()->finish(milliseconds(2'000));
  }
}

/// False when the connection is of no use any more.
asio::awaitable<bool> Load::ask(std::shared_ptr<client::NodeConnection> connection, Instant turn, char sort) {
  const Piece& piece = pieces_[next_piece_++ % pieces_.size()];
  const Instant give_up = after(Clock::now(), kWithin);
  const auto outgoing = request_of(piece, give_up);
  const auto inbox = std::make_shared<client::Inbox>(setup_.dialler.executor);
  connection->begin(outgoing, 0, inbox);
  while (!inbox->whole && !inbox->refused && !inbox->lost && Clock::now() < give_up)
    co_await inbox->bell.wait_until(give_up);
  connection->forget(outgoing->id);
  if (inbox->whole) {
    connection->tell(wire::FrameType::result_ack, outgoing->id);
    ++tally_.requests;
    const std::string fault = fault_of(piece, *inbox->result, inbox->payload);
    if (!fault.empty()) {
      ++tally_.wrong;
      ++tally_.failures["wrong: " + fault];
    }
    note(turn, sort, inbox->result->timing);
    co_return true;
  }
  if (inbox->lost) {
    failed(Error{inbox->lost->code, "connection lost: " + inbox->lost->detail});
    co_return false;
  }
  failed(inbox->refused ? wire::to_error(*inbox->refused) : Error{Errc::timeout, "no answer within 20 s"});
  co_return inbox->refused.has_value();
}

void Load::failed(const Error& error) {
  ++tally_.requests;
  ++tally_.failures[describe(error)];
}

void Load::note(Instant turn, char sort, const wire::Timing& node) {
  const Instant now = Clock::now();
  std::uint64_t ran_us = 0;
  for (const wire::StepTiming& step : node.steps) ran_us += step.run_us;
  tally_.samples.push_back(Sample{unix_us(turn), elapsed(turn, now).count(), node.total_us, sort, ran_us});
}

}  // namespace gearbox::load
