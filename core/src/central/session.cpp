// A stranger's first seconds: the secure channel's handshake, then one frame that says and proves who it is.
#include <spdlog/spdlog.h>

#include <utility>

#include "central/frames.hpp"
#include "central/server_state.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/login.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {

constexpr milliseconds kHandshakeWithin{10'000};
constexpr milliseconds kFirstFrameWithin{10'000};

void log_stranger(ServerState& state, const char* event, const FrameStream& stream, const Error& error) {
  if (!state.stranger_log.allows(Clock::now())) return;
  spdlog::info("event={} peer={} reason=\"{}\"{}", event, escaped(stream.peer()), escaped(describe(error)),
               state.stranger_log.note());
}

asio::awaitable<void> refuse_login(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                   Error error) {
  ++state->counters.logins_failed;
  log_stranger(*state, "login_refused", *stream, error);
  const std::uint32_t retry = retry_after_ms(error);
  co_await refuse(stream, std::move(error), retry);
}

asio::awaitable<void> hello(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream, std::string json) {
  Outcome<wire::Hello> said = wire::parse<wire::Hello>(json);
  Outcome<void> proven = said ? link::check_hello(said.value(), stream->h()) : Outcome<void>(said.error());
  if (!proven) {
    co_await refuse_login(state, stream, proven.error());
    co_return;
  }
  const wire::Hello& who = said.value();
  if (who.role == "device") {
    Outcome<User> user = state->accounts->login(who.user, who.key);
    if (!user) {
      co_await refuse_login(state, stream, user.error());
      co_return;
    }
    ++state->counters.logins;
    co_await serve_device(state, stream, std::move(user).value(), who.key, who.agent);
    co_return;
  }
  if (who.role == "node") {
    Outcome<NodeEntry> node = state->accounts->node(who.key);
    if (!node) {
      co_await refuse_login(state, stream, node.error());
      co_return;
    }
    ++state->counters.node_logins;
    co_await serve_node(state, stream, std::move(node).value());
    co_return;
  }
  Error error{Errc::bad_input, "central serves the roles 'device' and 'node'"};
  co_await refuse_login(state, stream, std::move(error));
}

asio::awaitable<void> enrol(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream, std::string json,
                            std::string group) {
  // Wiped however this ends: refused, limited, or checked on another thread, which shares it.
  const std::shared_ptr<wire::Enrol> said(new wire::Enrol, [](wire::Enrol* message) {
    link::wipe(std::as_writable_bytes(std::span(message->password)));
    delete message;
  });
  Outcome<void> proven = wire::from_json(json, *said);
  link::wipe(std::as_writable_bytes(std::span(json.data(), json.size())));  // it holds the password
  if (proven) proven = link::check_enrol(*said, stream->h());
  if (proven) proven = check_name("device", said->device);
  if (!proven) {
    co_await refuse_login(state, stream, proven.error());
    co_return;
  }
  if (const milliseconds wait = state->limiter.wait(group, Clock::now()); wait > milliseconds{0}) {
    ++state->counters.rate_limited;
    Error error{Errc::rate_limited,
                "too many wrong passwords from this address: wait " + std::to_string(wait.count()) + " ms"};
    log_stranger(*state, "enrol_refused", *stream, error);
    co_await refuse(stream, std::move(error), static_cast<std::uint32_t>(wait.count()));
    co_return;
  }
  std::function<Outcome<User>(Accounts&)> job = [said](Accounts& accounts) -> Outcome<User> {
    Outcome<User> user = accounts.check_password(said->user, said->password);
    link::wipe(std::as_writable_bytes(std::span(said->password)));
    if (!user) return user;
    BOOST_OUTCOME_TRY(accounts.enrol(said->user, said->device, said->key));
    return user;
  };
  Outcome<User> user = co_await PasswordPool::run(state->pool, state->executor, group, std::move(job));
  if (!user) {
    Error error = user.error();
    ++state->counters.enrols_failed;
    if (error.code == Errc::overloaded) ++state->counters.overloaded;
    if (error.code == Errc::auth_failed) state->limiter.failed(group, Clock::now());
    log_stranger(*state, "enrol_refused", *stream, error);
    const std::uint32_t retry = retry_after_ms(error);
    co_await refuse(stream, std::move(error), retry);
    co_return;
  }
  ++state->counters.enrols;
  spdlog::info("event=enrolled user={} device={} key={} peer={}", user.value().name, said->device, to_text(said->key),
               escaped(stream->peer()));
  co_await serve_device(state, stream, std::move(user).value(), said->key, std::string());
}

/// Takes the connection off the books however its coroutine ends.
class Leave {
 public:
  Leave(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream)
      : state_(std::move(state)), stream_(std::move(stream)) {}
  Leave(const Leave&) = delete;
  Leave& operator=(const Leave&) = delete;
  ~Leave() {
    stream_->close();
    state_->open.erase(stream_);
    if (state_->stopping && state_->open.empty()) state_->drained.cancel();
  }

 private:
  std::shared_ptr<ServerState> state_;
  std::shared_ptr<FrameStream> stream_;
};

asio::awaitable<void> introduce(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                std::string group) {
  Outcome<void> sealed = co_await FrameStream::accept_sealed(stream, state->channel, kHandshakeWithin);
  if (!sealed) {
    ++state->counters.handshakes_failed;
    log_stranger(*state, "handshake_failed", *stream, sealed.error());
    co_return;
  }
  Outcome<wire::Frame> first = co_await read_small(stream, kFirstFrameWithin, kStrangerJsonBytes);
  if (!first) {
    log_stranger(*state, "login_missing", *stream, first.error());
    if (first.error().code == Errc::frame_too_large) co_await refuse_login(state, stream, first.error());
    co_return;
  }
  std::string json = std::move(first.value().json);
  switch (first.value().header.type) {
    case wire::FrameType::hello:
      co_await hello(state, stream, std::move(json));
      break;
    case wire::FrameType::enrol:
      co_await enrol(state, stream, std::move(json), std::move(group));
      break;
    default: {
      Error error{Errc::bad_frame, "the first frame must be hello or enrol"};
      co_await refuse_login(state, stream, std::move(error));
    }
  }
}

}  // namespace

asio::awaitable<void> serve_connection(std::shared_ptr<ServerState> state, std::shared_ptr<FrameStream> stream,
                                       std::string peer_group) {
  const Leave leave(state, stream);
  co_await introduce(state, stream, std::move(peer_group));
}

}  // namespace gearbox::central
