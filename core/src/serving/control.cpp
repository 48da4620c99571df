#include "serving/control.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <unistd.h>

#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "gearbox/base/text.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "serving/accept_loop.hpp"
#include "serving/unix_socket.hpp"

namespace gearbox::serving {

namespace json = boost::json;
using net::FrameStream;

namespace {

constexpr std::size_t kMaxConnections = 32;
constexpr milliseconds kIdle{300'000};
constexpr milliseconds kWrite{10'000};

json::object failed(const Error& error) {
  json::object answer;
  answer["ok"] = false;
  json::object& reason = answer["error"].emplace_object();
  reason["code"] = static_cast<std::uint16_t>(error.code);
  reason["name"] = name_of(error.code);
  reason["detail"] = error.detail;
  return answer;
}

Outcome<json::object> parse_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code bad;
  json::value value = json::parse(text, bad, {}, options);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "control: a JSON object is wanted"};
  return std::move(value.as_object());
}

Outcome<json::object> handled(const ControlHandler& handler, std::string_view text) {
  BOOST_OUTCOME_TRY(const json::object request, parse_object(text));
  const json::value* command = request.if_contains("command");
  if (command == nullptr || !command->is_string()) return Error{Errc::bad_frame, "control: \"command\" is missing"};
  const std::string_view name = command->as_string();
  if (name == "ping") return json::object{{"pid", ::getpid()}};
  return handler(name, request);
}

Error error_in(const json::object& answer) {
  const json::value* reason = answer.if_contains("error");
  if (reason == nullptr || !reason->is_object()) return Error{Errc::bad_frame, "control: an answer without a reason"};
  const json::value* code = reason->as_object().if_contains("code");
  const json::value* detail = reason->as_object().if_contains("detail");
  const std::int64_t number = code != nullptr && code->is_int64() ? code->as_int64() : 0;
  const bool fits = number > 0 && number <= 0xFFFF;
  return Error{fits ? static_cast<Errc>(number) : Errc::internal,
               detail != nullptr && detail->is_string() ? std::string(detail->as_string()) : std::string()};
}

asio::awaitable<void> ask(int descriptor, std::string text, milliseconds within, std::optional<Outcome<wire::Frame>>& answer) {
  auto executor = co_await asio::this_coro::executor;
  auto stream = FrameStream::adopt(executor, descriptor, "control");
  if (!stream) {
    answer.emplace(stream.error());
    co_return;
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::control;
  Outcome<void> sent = co_await FrameStream::write_frame(stream.value(), header, std::move(text), {}, within);
  if (!sent) {
    answer.emplace(sent.error());
    co_return;
  }
  const Instant deadline = after(Clock::now(), within);
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream.value(), std::max(milliseconds{1}, left));
    const bool other = frame && frame.value().header.type != wire::FrameType::control_answer &&
                       frame.value().header.type != wire::FrameType::error;
    if (other && Clock::now() < deadline) continue;
    answer.emplace(std::move(frame));
    break;
  }
  stream.value()->close();
}

}  // namespace

std::string answer_control(const ControlHandler& handler, std::string_view request) {
  Outcome<json::object> answer = Error{Errc::internal, "the handler threw"};
  try {
    answer = handled(handler, request);
  } catch (const std::exception& caught) {
    answer = Error{Errc::internal, caught.what()};
  }
  if (!answer) return json::serialize(failed(answer.error()));
  json::object whole{{"ok", true}};
  for (auto& member : answer.value()) whole[member.key()] = std::move(member.value());
  std::string text = json::serialize(whole);
  if (text.size() <= wire::kMaxJsonBytes) return text;
  return json::serialize(failed(Error{Errc::too_large, "the answer is too long for one frame"}));
}

struct ControlServer::State {
  State(UnixListener given, ControlHandler handle) : listener(std::move(given)), handler(std::move(handle)) {}
  UnixListener listener;
  ControlHandler handler;
  std::shared_ptr<AcceptLoop> loop;
  std::set<std::shared_ptr<FrameStream>> open;

  static asio::awaitable<void> serve(std::shared_ptr<State> self, std::shared_ptr<FrameStream> stream) {
    for (;;) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kIdle);
      if (!frame) break;
      if (frame.value().header.type != wire::FrameType::control) continue;
      wire::FrameHeader header;
      header.type = wire::FrameType::control_answer;
      header.request = frame.value().header.request;
      std::string answer = answer_control(self->handler, frame.value().json);
      Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(answer), {}, kWrite);
      if (!sent) break;
    }
    self->open.erase(stream);
    stream->close();
  }
};

ControlServer::ControlServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<ControlServer>> ControlServer::start(asio::any_io_executor executor, const std::filesystem::path& path,
                                                             ControlHandler handler) {
  BOOST_OUTCOME_TRY(UnixListener listener, UnixListener::open(path));
  auto state = std::make_shared<State>(std::move(listener), std::move(handler));
  AcceptLoop::Setup setup;
  setup.executor = executor;
  setup.listening = state->listener.give_away();
  setup.accept = accept_unix;
  const std::weak_ptr<State> weak = state;
  setup.full = [weak] {
    const auto alive = weak.lock();
    return !alive || alive->open.size() >= kMaxConnections;
  };
  setup.accepted = [weak, executor](plugin::Connection connection) {
    Outcome<std::shared_ptr<FrameStream>> stream =
        FrameStream::adopt(executor, connection.descriptor, std::move(connection.peer));
    const auto alive = weak.lock();
    if (!stream || !alive) return;
    alive->open.insert(stream.value());
    asio::co_spawn(executor, State::serve(alive, std::move(stream).value()), asio::detached);
  };
  BOOST_OUTCOME_TRY(state->loop, AcceptLoop::start(std::move(setup)));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(state)));
}

ControlServer::~ControlServer() {
  state_->loop->stop();
  for (const auto& stream : std::exchange(state_->open, {})) stream->close();
  [[maybe_unused]] const UnixListener gone = std::move(state_->listener);
}

Outcome<json::object> ask_control(const std::filesystem::path& socket, json::object request, milliseconds within) {
  BOOST_OUTCOME_TRY(const int descriptor, connect_unix(socket));
  asio::io_context io(1);
  std::optional<Outcome<wire::Frame>> answer;
  asio::co_spawn(io, ask(descriptor, json::serialize(request), within, answer), asio::detached);
  io.run();
  if (!answer) return Error{Errc::internal, "control: no answer"};
  if (!*answer) return answer->error();
  BOOST_OUTCOME_TRY(json::object facts, parse_object(answer->value().json));
  const json::value* ok = facts.if_contains("ok");
  if (ok == nullptr || !ok->is_bool()) return Error{Errc::bad_frame, "control: an answer without \"ok\""};
  if (!ok->as_bool()) return error_in(facts);
  facts.erase("ok");
  return facts;
}

}  // namespace gearbox::serving
