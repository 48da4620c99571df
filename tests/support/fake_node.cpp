#include "support/fake_node.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gearbox/link/login.hpp"

namespace gearbox::test {

namespace asio = net::asio;
using net::FrameStream;
using wire::FrameType;

namespace {
constexpr milliseconds kWithin{20'000};
const RequestId kConnection;  // nil: about the connection

FakeResult lines_of(const wire::Submit& submit, const Bytes& upload) {
  FakeResult result;
  wire::TensorSpec spec;
  spec.name = "text";
  spec.dtype = wire::DType::bytes;
  spec.shape = {static_cast<std::int64_t>(submit.inputs.size())};
  for (const wire::InputSpec& input : submit.inputs) {
    const std::string line =
        input.tensor.name + " " + std::to_string(input.tensor.bytes) + " of " + std::to_string(upload.size());
    std::array<std::byte, 4> length{};
    store_le(length.data(), static_cast<std::uint32_t>(line.size()));
    result.payload.insert(result.payload.end(), length.begin(), length.end());
    const ByteView text = view_of(line);
    result.payload.insert(result.payload.end(), text.begin(), text.end());
  }
  spec.bytes = result.payload.size();
  result.message.tensors = {spec};
  result.message.bytes = spec.bytes;
  result.message.timing.queue_us = 5;
  result.message.timing.total_us = 20;
  wire::StepTiming step;
  step.step = "only";
  step.model = "echo";
  step.version = "1";
  step.calls = 1;
  step.run_us = 10;
  result.message.timing.steps = {step};
  return result;
}

wire::FrameHeader header_of(FrameType type, const RequestId& id = {}) {
  wire::FrameHeader header;
  header.type = type;
  header.request = id;
  return header;
}

asio::awaitable<bool> say(std::shared_ptr<FrameStream> stream, wire::FrameHeader header, std::string json = {}) {
  Outcome<void> written = co_await FrameStream::write_frame(stream, header, std::move(json), ByteView(), kWithin);
  co_return written.has_value();
}

asio::awaitable<bool> refuse(std::shared_ptr<FrameStream> stream, RequestId id, Error error,
                             std::uint32_t retry_after_ms = 0) {
  const wire::FrameHeader header = header_of(FrameType::error, id);
  std::string json = wire::to_json(wire::to_message(error, retry_after_ms));
  co_return co_await say(stream, header, std::move(json));
}

/// True once for each unit of `left`.
bool take(int& left) {
  if (left <= 0) return false;
  --left;
  return true;
}
}  // namespace

struct FakeNode::Entry {
  explicit Entry(link::UploadReceiver r) : receiver(std::move(r)) {}
  link::UploadReceiver receiver;
  Bytes upload;
  bool accepted = false;
  std::optional<FakeResult> result;
};

FakeNode::FakeNode(FakeScript script)
    : script_(std::move(script)),
      central_keys_(link::make_channel_keys()),
      node_keys_(link::make_channel_keys()),
      context_(1) {
  const int central = listen(central_url_);
  const int node = listen(node_url_);
  asio::co_spawn(context_, accept_loop(this, central, true), asio::detached);
  asio::co_spawn(context_, accept_loop(this, node, false), asio::detached);
  thread_ = std::thread([this] { context_.run(); });
}

FakeNode::~FakeNode() {
  stop();
}

void FakeNode::stop() {
  if (!thread_.joinable()) return;
  asio::post(context_, [this] {
    for (auto& listener : listeners_) listener->close();
    for (auto& weak : streams_) {
      if (const Stream stream = weak.lock()) stream->close();
    }
    holding_.clear();
    silent_.clear();
  });
  thread_.join();
}

int FakeNode::listen(std::string& url) {
  Outcome<plugin::Listening> listening = transport_.listen(url);
  if (!listening) std::abort();
  url = listening.value().url;
  return listening.value().descriptor;
}

asio::awaitable<void> FakeNode::accept_loop(FakeNode* self, int listening, bool central) {
  auto listener = std::make_shared<asio::posix::stream_descriptor>(self->context_, listening);
  self->listeners_.push_back(listener);
  for (;;) {
    auto [failed] =
        co_await listener->async_wait(asio::posix::stream_descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
    if (failed) co_return;
    Outcome<plugin::Connection> connection = self->transport_.accept(listening);
    if (!connection) continue;
    auto stream =
        FrameStream::adopt(self->context_.get_executor(), connection.value().descriptor, connection.value().peer);
    if (!stream) continue;
    self->streams_.push_back(stream.value());
    if (central) {
      asio::co_spawn(self->context_, serve_central(self, stream.value()), asio::detached);
    } else {
      asio::co_spawn(self->context_, serve_node(self, stream.value()), asio::detached);
    }
  }
}

asio::awaitable<void> FakeNode::serve_central(FakeNode* self, Stream stream) {
  FakeScript& script = self->script_;
  Outcome<void> sealed = co_await FrameStream::accept_sealed(stream, self->central_keys_, kWithin);
  bool known = false;
  while (sealed) {
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kWithin);
    if (!frame) break;
    if (frame.value().header.type == FrameType::enrol) {
      auto enrol = wire::parse<wire::Enrol>(frame.value().json);
      if (!enrol || !link::check_enrol(enrol.value(), stream->h())) break;
      self->counts_.enrolled.push_back(enrol.value().user + "/" + enrol.value().device + "/" + enrol.value().password);
      if (enrol.value().password != "right") {
        const Error wrong{Errc::auth_failed, "unknown user or wrong password"};
        co_await refuse(stream, kConnection, wrong);
        break;
      }
      std::string json = wire::to_json(wire::HelloOk{"central", 30'000, 0});
      co_await say(stream, header_of(FrameType::hello_ok), std::move(json));
    } else if (frame.value().header.type == FrameType::hello) {
      auto hello = wire::parse<wire::Hello>(frame.value().json);
      known = hello && link::check_hello(hello.value(), stream->h());
      ++self->counts_.logins;
      if (script.refuse_login || !known) {
        const Error why = script.refuse_login.value_or(Error{Errc::auth_failed, "bad signature"});
        co_await refuse(stream, kConnection, why);
        break;
      }
      std::string json = wire::to_json(wire::HelloOk{"central", 30'000, 0});
      co_await say(stream, header_of(FrameType::hello_ok), std::move(json));
    } else if (frame.value().header.type == FrameType::locate && known) {
      ++self->counts_.locates;
      auto locate = wire::parse<wire::Locate>(frame.value().json);
      if (!locate) break;
      if (locate.value().task != script.task) {
        const Error unknown{Errc::unknown_task, "no task is called '" + locate.value().task + "'"};
        co_await refuse(stream, kConnection, unknown);
        break;
      }
      if (take(script.no_node)) {
        const Error none{Errc::no_node, "no ready node does '" + script.task + "'"};
        co_await refuse(stream, kConnection, none, script.retry_after_ms);
        break;
      }
      const FakeNode* const chosen = script.place ? script.place(locate.value()) : self;
      const std::string& other_url = chosen->script_.node_url;
      wire::Located located;
      located.node = chosen->script_.name;
      located.addresses = {other_url.empty() ? chosen->node_url_ : other_url};
      located.node_key = to_hex(chosen->node_keys_.public_key);
      located.ticket = "ticket";
      located.ticket_ttl_ms = script.ticket_ttl_ms;
      co_await say(stream, header_of(FrameType::located), wire::to_json(located));
    }
  }
  stream->close();
}

asio::awaitable<void> FakeNode::serve_node(FakeNode* self, Stream stream) {
  Outcome<void> sealed = co_await FrameStream::accept_sealed(stream, self->node_keys_, kWithin);
  if (!sealed) co_return;
  ++self->counts_.connections;
  Outcome<wire::Frame> first = co_await FrameStream::read_frame(stream, kWithin);
  if (!first || first.value().header.type != FrameType::hello) co_return stream->close();
  auto hello = wire::parse<wire::Hello>(first.value().json);
  if (!hello || hello.value().ticket != "ticket" || !link::check_hello(hello.value(), stream->h())) {
    const Error bad{Errc::bad_ticket, "not one of ours"};
    co_await refuse(stream, kConnection, bad);
    co_return stream->close();
  }
  wire::HelloOk welcome;
  welcome.name = self->script_.name;
  welcome.idle_ms = self->script_.idle_ms;
  welcome.max_upload_bytes = self->script_.max_upload_bytes;
  bool going = co_await say(stream, header_of(FrameType::hello_ok), wire::to_json(welcome));
  if (self->script_.silent_node) {
    self->silent_.push_back(stream);  // open until stop()
    co_return;
  }
  while (going) {
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kWithin);
    if (!frame) break;
    going = co_await on_frame(self, stream, std::move(frame).value());
  }
  std::erase_if(self->holding_, [&](const auto& held) { return held.first == stream; });
  stream->close();
}

asio::awaitable<bool> FakeNode::on_frame(FakeNode* self, Stream stream, wire::Frame frame) {
  const RequestId id = frame.header.request;
  switch (frame.header.type) {
    case FrameType::ping: {
      ++self->counts_.pings;
      co_return co_await say(stream, header_of(FrameType::pong));
    }
    case FrameType::cancel:
      ++self->counts_.cancels;
      co_return true;
    case FrameType::result_ack:
      ++self->counts_.acks;
      ++self->acknowledged_;
      co_return true;
    case FrameType::submit:
      co_return co_await on_submit(self, stream, std::move(frame));
    case FrameType::upload_data: {
      const auto found = self->entries_.find(id);
      if (found == self->entries_.end()) co_return true;
      Entry& entry = *found->second;
      if (!entry.receiver.received(frame.header.offset, frame.payload)) {
        ++self->counts_.bad_chunks;
        co_return true;
      }
      self->counts_.upload_bytes += frame.payload.size();
      entry.upload.insert(entry.upload.end(), frame.payload.begin(), frame.payload.end());
      if (entry.receiver.complete()) co_return co_await whole(self, stream, id);
      wire::FrameHeader at = header_of(FrameType::upload_at, id);
      at.offset = entry.receiver.offset();
      co_return co_await say(stream, at);
    }
    default:
      co_return true;
  }
}

asio::awaitable<bool> FakeNode::on_submit(FakeNode* self, Stream stream, wire::Frame frame) {
  ++self->counts_.submits;
  const RequestId id = frame.header.request;
  if (take(self->script_.busy_submits)) {
    const Error busy{self->script_.busy_code, "the queue is full"};
    co_return co_await refuse(stream, id, busy, self->script_.retry_after_ms);
  }
  auto submit = wire::parse<wire::Submit>(frame.json);
  if (!submit) co_return co_await refuse(stream, id, submit.error());
  const auto known = self->entries_.find(id);
  if (known != self->entries_.end()) {
    Entry& entry = *known->second;
    if (!entry.receiver.matches(submit.value())) {
      const Error other{Errc::bad_input, "the same id with other content"};
      co_return co_await refuse(stream, id, other);
    }
    if (entry.accepted) co_return co_await answer(self, stream, id);
    wire::FrameHeader at = header_of(FrameType::upload_at, id);
    at.offset = entry.receiver.offset();
    co_return co_await say(stream, at);
  }
  if (self->script_.takes == 0) {
    const Error full{self->script_.busy_code, "takes nothing new"};
    co_return co_await refuse(stream, id, full, self->script_.retry_after_ms);
  }
  if (self->script_.takes > 0) --self->script_.takes;
  auto receiver = link::UploadReceiver::announce(submit.value(), self->script_.limit_bytes);
  if (!receiver) co_return co_await refuse(stream, id, receiver.error());
  Entry& entry = *(self->entries_[id] = std::make_unique<Entry>(std::move(receiver).value()));
  if ((frame.header.flags & wire::kInlinePayload) == 0)
    co_return co_await say(stream, header_of(FrameType::upload_at, id));
  // The payload may hold several inputs, one after the other.
  std::size_t at = 0;
  while (at < frame.payload.size()) {
    const std::size_t piece = std::min<std::size_t>(entry.receiver.place().left_in_input, frame.payload.size() - at);
    if (piece == 0 || !entry.receiver.received(at, ByteView(frame.payload).subspan(at, piece))) co_return false;
    at += piece;
  }
  entry.upload = frame.payload;
  self->counts_.upload_bytes += frame.payload.size();
  co_return co_await whole(self, stream, id);
}

asio::awaitable<bool> FakeNode::whole(FakeNode* self, Stream stream, RequestId id) {
  Entry& entry = *self->entries_.at(id);
  Outcome<void> verified = entry.receiver.verify();
  if (!verified) co_return co_await refuse(stream, id, verified.error());
  entry.accepted = true;
  ++self->counts_.runs;
  self->counts_.digests[id] = entry.receiver.submit().digest;
  entry.result = self->script_.make_result ? self->script_.make_result(entry.receiver.submit(), entry.upload)
                                           : lines_of(entry.receiver.submit(), entry.upload);
  if (take(self->script_.drop_before_accepted)) co_return false;
  co_return co_await answer(self, stream, id);
}

asio::awaitable<bool> FakeNode::answer(FakeNode* self, Stream stream, RequestId id) {
  const bool said = co_await say(stream, header_of(FrameType::accepted, id));
  if (!said) co_return false;
  if (take(self->script_.drop_before_result)) {
    if (self->script_.busy_after_restart > 0) {
      self->entries_.clear();
      self->script_.busy_submits = self->script_.busy_after_restart;
    }
    co_return false;
  }
  if (self->script_.on_accepted) self->script_.on_accepted();
  if (self->script_.fail_request) co_return co_await refuse(stream, id, *self->script_.fail_request);
  if (self->script_.never_answer) co_return true;
  self->holding_.emplace_back(stream, id);
  self->counts_.held = std::max(self->counts_.held, self->holding_.size());
  if (self->holding_.size() < self->script_.hold_results) co_return true;
  co_return co_await send_held(self, stream);
}

void FakeNode::answer_held() {
  asio::post(context_, [this] { asio::co_spawn(context_, send_held(this, nullptr), asio::detached); });
}

/// False: the connection `asking` is broken.
asio::awaitable<bool> FakeNode::send_held(FakeNode* self, Stream asking) {
  self->script_.hold_results = 0;
  auto holding = std::move(self->holding_);
  self->holding_.clear();
  bool going = true;
  for (auto& [to, which] : holding) {
    const bool sent = co_await send_result(self, to, which);
    if (to == asking) going = going && sent;
  }
  co_return going;
}

asio::awaitable<bool> FakeNode::send_result(FakeNode* self, Stream stream, RequestId id) {
  const FakeResult result = *self->entries_.at(id)->result;
  std::size_t at = 0;
  bool first = true;
  do {
    const std::size_t piece = std::min(self->script_.result_part_bytes, result.payload.size() - at);
    wire::FrameHeader header = header_of(first ? FrameType::result : FrameType::result_data, id);
    header.offset = at;
    if (at + piece == result.payload.size()) header.flags = wire::kLastPart;
    std::string json = first ? wire::to_json(result.message) : std::string();
    const ByteView bytes = ByteView(result.payload).subspan(at, piece);
    Outcome<void> written = co_await FrameStream::write_frame(stream, header, std::move(json), bytes, kWithin);
    if (!written) co_return false;
    at += piece;
    first = false;
  } while (at < result.payload.size());
  co_return true;
}

}  // namespace gearbox::test
