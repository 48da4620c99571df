#include "scheduler/host_stream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>

#include <cstring>
#include <utility>

#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"
#include "serving/control_client.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;
using gear_facts::Answer;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kHello{2'000};
constexpr milliseconds kOpen{15'000};  // the way, the connection and the handshake have limits of their own at the node
constexpr milliseconds kWrite{2'000};
constexpr milliseconds kIdle{std::chrono::hours(24)};  // a node that ends closes the socket
constexpr milliseconds kShortestLife{1'000};
constexpr milliseconds kNextTry{10'000};  // of renewing

RequestId id_of(std::uint64_t number) {
  RequestId id;
  std::memcpy(id.bytes.data(), &number, sizeof(number));
  return id;
}

Error refusal_in(const std::string& text) {
  Outcome<wire::ErrorMessage> refusal = wire::parse<wire::ErrorMessage>(text);
  return refusal ? wire::to_error(refusal.value()) : refusal.error();
}

}  // namespace

asio::awaitable<Outcome<void>> HostStream::open() {
  const Self self = shared_from_this();
  if (older_ && waiting_.empty()) std::exchange(older_, nullptr)->close();
  if (stream_ && Clock::now() < renew_at_) co_return done();
  if (opening_) co_return keep_open(Error{Errc::overloaded, "it is being connected already"});
  Outcome<std::shared_ptr<FrameStream>> dialled = serving::dial_control(executor_, node_socket_);
  if (!dialled) co_return keep_open(Error{dialled.error().code, "this host's node: " + dialled.error().detail});
  const std::shared_ptr<FrameStream> stream = dialled.value();
  opening_ = stream;
  Outcome<void> opened = co_await dial(self, stream);
  const bool wanted = opening_ == stream;  // nobody has closed it meanwhile
  if (wanted) opening_.reset();
  if (opened && !wanted) opened = Error{Errc::closed, "it is not wanted any more"};
  if (!opened) {
    stream->close();
    co_return wanted ? keep_open(opened.error()) : opened;
  }
  older_ = std::exchange(stream_, stream);  // what was asked over it may be answered still
  asio::co_spawn(executor_, read_answers(self, stream), asio::detached);
  co_return done();
}

/// One that is to be renewed goes on until its ticket is over.
Outcome<void> HostStream::keep_open(const Error& why) {
  if (!stream_) return why;
  renew_at_ = after(Clock::now(), kNextTry);
  return done();
}

asio::awaitable<Outcome<void>> HostStream::dial(Self self, std::shared_ptr<FrameStream> stream) {
  wire::Hello hello;
  hello.role = "local";
  hello.agent = "scheduler " GEARBOX_VERSION;
  FrameHeader header;
  header.type = FrameType::hello;
  std::string text = wire::to_json(hello);
  Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kHello);
  if (!sent) co_return sent;
  Outcome<wire::Frame> welcome = co_await FrameStream::read_frame(stream, kHello, 0);
  if (!welcome) co_return welcome.error();
  if (welcome.value().header.type != FrameType::hello_ok) co_return refusal_in(welcome.value().json);
  header.type = FrameType::gears_open;
  text = json::serialize(json::object{{"node", self->node_}});
  sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kHello);
  if (!sent) co_return sent;
  Outcome<wire::Frame> opened = co_await FrameStream::read_frame(stream, kOpen, 0);
  if (!opened) co_return opened.error();
  if (opened.value().header.type != FrameType::gears_open) co_return refusal_in(opened.value().json);
  Answer told = gear_facts::parse_answer(opened.value().json);
  if (!told) co_return told.error();
  std::int64_t renew_ms = 0;
  link::ObjectReader reader(told.value());
  reader.read("renew_ms", renew_ms);
  const Outcome<void> read = reader.result();
  if (!read) co_return read;
  self->renew_at_ = after(Clock::now(), std::max(kShortestLife, milliseconds(renew_ms)));
  co_return done();
}

void HostStream::close() {
  if (opening_) std::exchange(opening_, nullptr)->close();
  if (older_) std::exchange(older_, nullptr)->close();
  if (stream_) ended(stream_, Error{Errc::closed, "it is not wanted any more"});
}

asio::awaitable<Answer> HostStream::ask(std::string_view role, json::object command, milliseconds within) {
  command["to"] = json::string(role.data(), role.size());
  co_return co_await put(shared_from_this(), std::move(command), within);
}

asio::awaitable<Answer> HostStream::price(std::string group, std::uint8_t gear, milliseconds within) {
  json::object question{{"to", "group"}, {"group", group}, {"op", "price"}, {"gear", gear}};
  co_return co_await put(shared_from_this(), std::move(question), within);
}

asio::awaitable<Answer> HostStream::put(Self self, json::object question, milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  const std::shared_ptr<FrameStream> stream = self->stream_;
  if (!stream) co_return Error{Errc::closed, "the connection to it is lost"};
  if (self->waiting_.size() >= kMostAtOnce) co_return Error{Errc::overloaded, "too many questions at once"};
  const RequestId id = id_of(++self->last_);
  const auto asked = std::make_shared<Question>(self->executor_);
  self->waiting_.emplace(id, asked);
  FrameHeader header;
  header.type = FrameType::gears_data;
  header.request = id;
  std::string text = json::serialize(question);
  Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kWrite);
  if (!sent) {
    self->waiting_.erase(id);
    self->ended(stream, sent.error());
    co_return sent.error();
  }
  if (!asked->answer) {
    asked->told.expires_at(deadline);
    boost::system::error_code woken;
    co_await asked->told.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  self->waiting_.erase(id);
  if (asked->answer) co_return std::move(*asked->answer);
  co_return Error{Errc::timeout, "no answer in time"};
}

asio::awaitable<void> HostStream::read_answers(Self self, std::shared_ptr<FrameStream> stream) {
  Error end{Errc::closed, "the connection to it is lost"};
  for (;;) {
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kIdle, 0);
    if (!frame) {
      if (frame.error().code != Errc::closed) end = frame.error();
      break;
    }
    const FrameHeader& header = frame.value().header;
    if (header.type == FrameType::error && header.request.is_nil()) {
      end = refusal_in(frame.value().json);
      break;
    }
    if (header.type == FrameType::error || header.type == FrameType::gears_data) self->take(frame.value());
  }
  self->ended(stream, end);
}

void HostStream::take(const wire::Frame& frame) {
  const auto found = waiting_.find(frame.header.request);
  if (found == waiting_.end()) return;  // its time was over
  if (frame.header.type == FrameType::error) {
    found->second->answer = refusal_in(frame.json);
  } else {
    found->second->answer = gear_facts::parse_answer(frame.json);
  }
  found->second->told.cancel();
}

void HostStream::ended(const std::shared_ptr<FrameStream>& stream, const Error& why) {
  stream->close();
  if (stream != stream_) return;  // another one has taken its place
  stream_.reset();
  for (const auto& [id, question] : std::exchange(waiting_, {})) {
    if (!question->answer) question->answer = why;
    question->told.cancel();
  }
}

}  // namespace gearbox::scheduler
