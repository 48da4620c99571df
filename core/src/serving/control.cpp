#include "serving/control.hpp"

#include <unistd.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <exception>
#include <set>
#include <utility>

#include "gearbox/base/clock.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/messages.hpp"
#include "serving/accept_loop.hpp"
#include "serving/unix_socket.hpp"

namespace gearbox::serving {

namespace json = boost::json;
using net::FrameStream;

namespace {

constexpr std::size_t kMaxConnections = 32;
constexpr milliseconds kIdle{300'000};
constexpr milliseconds kWrite{10'000};

Outcome<json::object> handled(const ControlHandler& handler, std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code bad;
  const json::value request = json::parse(json::string_view(text.data(), text.size()), bad, {}, options);
  if (bad || !request.is_object()) return Error{Errc::bad_frame, "control: a JSON object is wanted"};
  const json::value* command = request.get_object().if_contains("command");
  if (command == nullptr || !command->is_string()) return Error{Errc::bad_frame, "control: \"command\" is missing"};
  const std::string_view name(command->get_string().data(), command->get_string().size());
  if (name == "ping") return json::object{{"pid", ::getpid()}};
  if (!handler) return Error{Errc::shutting_down, "stopping"};
  return handler(name, request.get_object());
}

}  // namespace

Outcome<std::string> answer_control(const ControlHandler& handler, std::string_view request) {
  try {
    BOOST_OUTCOME_TRY(const json::object answer, handled(handler, request));
    std::string text = json::serialize(answer);
    if (text.size() > wire::kMaxJsonBytes) return Error{Errc::too_large, "the answer is too long for one frame"};
    return text;
  } catch (const std::exception& caught) {
    return Error{Errc::internal, caught.what()};
  }
}

struct ControlServer::State {
  State(UnixListener given, ControlHandler handle) : listener(std::move(given)), handler(std::move(handle)) {}
  UnixListener listener;
  ControlHandler handler;  // emptied at the end: connections that end later find nobody
  std::shared_ptr<AcceptLoop> loop;
  std::set<std::shared_ptr<FrameStream>> open;

  static asio::awaitable<void> serve(std::shared_ptr<State> self, std::shared_ptr<FrameStream> stream) {
    for (;;) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kIdle);
      if (!frame) break;
      if (frame.value().header.type != wire::FrameType::control) continue;  // of a later version
      Outcome<std::string> answer = answer_control(self->handler, frame.value().json);
      wire::FrameHeader header;
      header.type = answer ? wire::FrameType::control_answer : wire::FrameType::error;
      header.request = frame.value().header.request;
      std::string text = answer ? std::move(answer).value() : wire::to_json(wire::to_message(answer.error()));
      Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kWrite);
      if (!sent) break;
    }
    self->open.erase(stream);
    stream->close();
  }
};

ControlServer::ControlServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<ControlServer>> ControlServer::start(asio::any_io_executor executor,
                                                             const std::filesystem::path& path,
                                                             ControlHandler handler) {
  BOOST_OUTCOME_TRY(UnixListener listener, UnixListener::open(path));
  auto state = std::make_shared<State>(std::move(listener), std::move(handler));
  AcceptLoop::Setup setup;
  setup.executor = executor;
  setup.listening = state->listener.give_away();
  setup.accept = accept_unix;
  const std::weak_ptr<State> weak = state;  // the loop belongs to the state
  setup.full = [weak] {
    const auto alive = weak.lock();
    return !alive || alive->open.size() >= kMaxConnections;
  };
  setup.accepted = [weak, executor](plugin::Connection connection) {
    auto stream = FrameStream::adopt(executor, connection.descriptor, std::move(connection.peer));
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
  state_->handler = nullptr;
  for (const auto& stream : std::exchange(state_->open, {})) stream->close();
  [[maybe_unused]] const UnixListener gone = std::move(state_->listener);
}

}  // namespace gearbox::serving
