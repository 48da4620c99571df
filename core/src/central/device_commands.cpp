// Commands at a device's contact. The database is the truth: a command is sent until its answer is written there.
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "central/frames.hpp"
#include "central/server_state.hpp"
#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/wire/command.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {

constexpr milliseconds kAnswerWithin{10'000};  // for the device to carry one out and to say so
constexpr std::size_t kMostFrames = 4;         // of other kinds, meanwhile
constexpr const char* kGroup = "commands";     // all devices together may hold half of the pool's queue

/// For people only: nobody waits for it.
void note_sent(ServerState& state, const PublicKey& device, std::uint64_t number) {
  PasswordPool::Job job = [device, number, now = state.time.unix_ms(Clock::now())](Accounts& accounts) {
    if (Outcome<void> noted = accounts.command_sent(device, number, now); !noted) {
      spdlog::warn("event=command_sent_not_noted reason=\"{}\"", escaped(describe(noted.error())));
    }
  };
  if (Outcome<void> taken = state.pool->submit(kGroup, std::move(job)); !taken) {
    spdlog::debug("event=command_sent_not_noted reason=\"{}\"", describe(taken.error()));
  }
}

/// Reads until the answer to `number` is there and written down; pings are answered. False: not in time, or there was
/// no room to write it; it will be asked again.
asio::awaitable<Outcome<bool>> await_answer(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                            PublicKey device, std::uint64_t number,
                                            std::shared_ptr<std::deque<wire::Frame>> waiting) {
  const Instant deadline = after(Clock::now(), kAnswerWithin);
  while (!state->stopping) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds{0}) co_return false;
    Outcome<wire::Frame> frame = co_await read_small(stream, left, kStrangerJsonBytes);
    if (!frame && frame.error().code == Errc::timeout && stream->is_open()) co_return false;
    if (!frame) co_return frame.error();
    const wire::FrameType type = frame.value().header.type;
    if (type == wire::kCommandAnswer) {
      const auto answer = wire::parse<wire::CommandAnswer>(frame.value().json);
      if (!answer) co_return answer.error();
      Outcome<void> taken = co_await take_command_answer(state, device, std::move(frame.value().json));
      if (!taken) co_return false;
      if (answer.value().number == number) co_return true;
    } else if (waiting->size() < kMostFrames) {
      waiting->push_back(std::move(frame).value());
    } else {
      co_return Error{Errc::overloaded, "too many frames while a command is under way"};
    }
  }
  co_return false;
}

}  // namespace

asio::awaitable<Outcome<void>> take_command_answer(std::shared_ptr<ServerState> state, PublicKey device,
                                                   std::string json) {
  Outcome<wire::CommandAnswer> read = wire::parse<wire::CommandAnswer>(json);
  if (!read) co_return read.error();
  const wire::CommandAnswer answer = std::move(read).value();
  // The pool's answers are of users; what counts here is that there was no error.
  std::function<Outcome<User>(Accounts&)> job = [device, answer,
                                                 now = state->time.unix_ms(Clock::now())](Accounts& accounts) {
    const Outcome<bool> first = accounts.command_answered(device, answer, now);
    return first ? Outcome<User>(User{}) : Outcome<User>(first.error());
  };
  Outcome<User> written = co_await PasswordPool::run(state->pool, state->executor, kGroup, std::move(job));
  if (!written) {
    spdlog::warn("event=command_answer_not_written device={} number={} reason=\"{}\"", to_text(device).substr(0, 16),
                 answer.number, escaped(describe(written.error())));
    co_return written.error();
  }
  stop_point("central.command.answered");
  spdlog::info("event=command_answered device={} number={} ok={}", to_text(device).substr(0, 16), answer.number,
               answer.ok);
  co_return done();
}

asio::awaitable<Outcome<void>> deliver_commands(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                                PublicKey device, std::shared_ptr<std::deque<wire::Frame>> waiting) {
  std::uint64_t last = 0;
  while (!state->stopping) {
    const Outcome<std::optional<wire::Command>> next =
        state->accounts->next_command(device, state->time.unix_ms(Clock::now()));
    if (!next) {
      spdlog::warn("event=commands_not_read reason=\"{}\"", escaped(describe(next.error())));
      break;
    }
    if (!next.value() || next.value()->number <= last) break;
    last = next.value()->number;
    std::string text = wire::to_json(*next.value());
    Outcome<void> sent = co_await send(stream, wire::kCommand, RequestId(), std::move(text));
    if (!sent) co_return sent;
    note_sent(*state, device, last);
    Outcome<bool> answered = co_await await_answer(state, stream, device, last, waiting);
    if (!answered) co_return answered.error();
    if (!answered.value()) break;
  }
  co_return done();
}

}  // namespace gearbox::central
