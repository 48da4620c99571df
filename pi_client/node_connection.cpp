#include "node_connection.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/link/secure_channel.hpp"

namespace gearbox::client {

namespace {

/// watch() alone decides when a connection is dead; reads and writes only must not wait for ever.
constexpr milliseconds kLong = std::chrono::minutes(10);

/// Bytes of one frame on a sealed connection.
std::uint64_t frame_bytes(std::size_t json, std::size_t payload) {
  const std::uint64_t body = json + payload;
  return wire::kHeaderBytes + link::kSealBytes + (body > 0 ? body + link::kSealBytes : 0);
}

std::uint32_t remaining(Instant expires) {
  const auto left = std::chrono::duration_cast<milliseconds>(elapsed(Clock::now(), expires)).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 1, wire::kNoDeadline - 1));
}

/// Nothing more is to be pushed for it: it is decided, or nobody waits.
bool settled(const Inbox& inbox) {
  return inbox.whole || inbox.refused || inbox.lost || inbox.abandoned || inbox.accepted || inbox.result;
}

/// How much of a chunk goes at once. A limited rate would make bursts of whole chunks; those of stored inputs may be
/// cut anywhere, tiles of coded ones nowhere.
std::size_t piece_of(const Outgoing& request, std::size_t chunk_bytes) {
  const auto coded = [](const wire::InputSpec& input) { return !input.codecs.empty(); };
  const auto& inputs = request.submit.inputs;
  if (!request.rate || !request.rate->limits() || std::any_of(inputs.begin(), inputs.end(), coded)) return chunk_bytes;
  return std::min<std::uint64_t>(chunk_bytes, std::max<std::uint64_t>(4096, request.rate->per() / 4));
}

}  // namespace

NodeConnection::NodeConnection(asio::any_io_executor executor, std::shared_ptr<net::FrameStream> stream,
                               std::string node, const wire::HelloOk& welcome, Pace pace)
    : executor_(executor),
      stream_(std::move(stream)),
      node_(std::move(node)),
      max_upload_bytes_(welcome.max_upload_bytes),
      pace_(pace),
      closed_(executor),
      tasks_(executor),
      small_writes_(executor) {
  if (welcome.idle_ms > 0)
    pace_.ping_every = std::clamp(milliseconds(welcome.idle_ms / 3), milliseconds(50), pace.ping_every);
}

std::shared_ptr<NodeConnection> NodeConnection::start(asio::any_io_executor executor,
                                                      std::shared_ptr<net::FrameStream> stream, std::string node,
                                                      const wire::HelloOk& welcome, Pace pace) {
  const Self self(new NodeConnection(std::move(executor), std::move(stream), std::move(node), welcome, pace));
  self->tasks_.spawn(read(self));
  self->tasks_.spawn(watch(self));
  return self;
}

void NodeConnection::begin(std::shared_ptr<const Outgoing> request, std::uint32_t attempt,
                           std::shared_ptr<Inbox> inbox) {
  if (why_) {
    inbox->lost = *why_;
    inbox->bell.ring();
    return;
  }
  inboxes_[request->id] = inbox;
  tasks_.spawn(push(shared_from_this(), std::move(request), attempt, std::move(inbox)));
}

void NodeConnection::forget(const RequestId& id) {
  const auto found = inboxes_.find(id);
  if (found == inboxes_.end()) return;
  found->second->abandoned = true;
  found->second->bell.ring();
  inboxes_.erase(found);
}

void NodeConnection::tell(wire::FrameType type, const RequestId& id, std::uint32_t part) {
  if (why_) return;
  wire::FrameHeader header;
  header.type = type;
  header.request = id;
  header.part = part;
  small_writes_.spawn(write_small(shared_from_this(), header));
}

void NodeConnection::close(Error why) {
  if (why_) return;
  why_ = std::move(why);
  stream_->close();
  for (auto& [id, inbox] : inboxes_) {
    inbox->lost = *why_;
    inbox->bell.ring();
  }
  inboxes_.clear();
  closed_.ring();
}

asio::awaitable<void> NodeConnection::finish(milliseconds within) {
  const Self self = shared_from_this();
  const Instant until = after(Clock::now(), within);
  while (!why_ && small_writes_.running() > 0 && Clock::now() < until) {
    // Each write that ends does not ring closed_; a short look is enough for the last moments of a connection.
    co_await closed_.wait_until(std::min(until, after(Clock::now(), milliseconds(5))));
  }
  close(Error{Errc::closed, "all done"});
  co_await small_writes_.all_done();
  co_await tasks_.all_done();
}

asio::awaitable<bool> NodeConnection::write(wire::FrameHeader header, std::string json, ByteView payload,
                                            std::shared_ptr<Inbox> inbox) {
  const std::uint64_t bytes = frame_bytes(json.size(), payload.size());
  Outcome<void> written = co_await net::FrameStream::write_frame(stream_, header, std::move(json), payload, kLong);
  if (!written) {
    close(std::move(written).error());
    co_return false;
  }
  if (inbox) inbox->sent += bytes;
  co_return true;
}

asio::awaitable<void> NodeConnection::write_small(Self self, wire::FrameHeader header) {
  const bool ping = header.type == wire::FrameType::ping;
  if (ping) self->ping_pending_ = true;
  co_await self->write(header, std::string(), ByteView(), nullptr);
  if (ping) self->ping_pending_ = false;
}

asio::awaitable<bool> NodeConnection::wait_turn(std::shared_ptr<const Outgoing> request, std::size_t bytes,
                                                std::shared_ptr<Inbox> inbox) {
  if (request->rate) {
    // A node gives up an upload that stands still for 30 s: however low the rate, some piece goes in time.
    constexpr milliseconds kMostWait{8'000};
    const Instant now = Clock::now();
    const Instant turn = std::min(request->rate->take(bytes, now), after(now, kMostWait));
    while (!settled(*inbox) && Clock::now() < turn) co_await inbox->bell.wait_until(turn);
  }
  co_return !settled(*inbox);
}

asio::awaitable<void> NodeConnection::push(Self self, std::shared_ptr<const Outgoing> request, std::uint32_t attempt,
                                           std::shared_ptr<Inbox> inbox) {
  wire::FrameHeader header;
  header.type = wire::FrameType::submit;
  header.request = request->id;
  header.priority = request->priority;
  header.attempt = attempt;
  header.part = inbox->next_part;
  ByteView payload;
  if (request->inline_payload) {
    header.flags = wire::kInlinePayload;
    payload = *request->inline_payload;
  }
  const bool turn = co_await wait_turn(request, payload.size(), inbox);
  if (!turn) co_return;
  header.remaining_ms = remaining(request->expires);
  inbox->submitted_at = Clock::now();
  const bool written = co_await self->write(header, wire::to_json(request->submit), payload, inbox);
  if (!written) co_return;
  if (request->inline_payload) {
    inbox->uploaded = payload.size();
    stop_point("client.uploaded");
  }
  // An inline upload may be asked for again: a node that met this request before goes on from what it has.
  while (!settled(*inbox) && !inbox->upload_at) co_await inbox->bell.wait_until(after(Clock::now(), kLong));
  if (settled(*inbox)) co_return;
  co_await push_chunks(self, request, attempt, inbox);
}

asio::awaitable<void> NodeConnection::push_chunks(Self self, std::shared_ptr<const Outgoing> request,
                                                  std::uint32_t attempt, std::shared_ptr<Inbox> inbox) {
  link::UploadSender& sender = *request->sender;
  std::uint64_t at = *inbox->upload_at;
  Outcome<void> sought = sender.seek(at);
  while (sought && !sender.finished() && !settled(*inbox)) {
    const link::UploadSender::Chunk chunk = sender.next();
    const std::size_t piece = piece_of(*request, chunk.bytes.size());
    for (std::size_t gone = 0; gone < chunk.bytes.size(); gone += piece) {
      const ByteView bytes = chunk.bytes.subspan(gone, std::min(piece, chunk.bytes.size() - gone));
      const bool turn = co_await wait_turn(request, bytes.size(), inbox);
      if (!turn) co_return;
      wire::FrameHeader header;
      header.type = wire::FrameType::upload_data;
      header.request = request->id;
      header.attempt = attempt;
      header.remaining_ms = remaining(request->expires);
      header.offset = chunk.offset + gone;
      const bool written = co_await self->write(header, std::string(), bytes, inbox);
      if (!written) co_return;
      at = header.offset + bytes.size();
      inbox->uploaded = at;
    }
    // The node may have more than was sent here: another connection of ours carried it. Never send what it has.
    if (*inbox->upload_at > at && !settled(*inbox)) {
      sought = sender.seek(*inbox->upload_at);
      at = *inbox->upload_at;
    }
  }
  if (!sought) {
    inbox->refused = wire::to_message(sought.error());
    inbox->bell.ring();
    co_return;
  }
  if (sender.finished()) stop_point("client.uploaded");
}

asio::awaitable<void> NodeConnection::read(Self self) {
  while (!self->why_) {
    Outcome<wire::Frame> frame = co_await net::FrameStream::read_frame(self->stream_, kLong);
    if (frame) {
      self->heard_ = Clock::now();
      self->sort(std::move(frame).value());
    } else if (frame.error().code != Errc::timeout || !self->stream_->is_open()) {
      self->close(std::move(frame).error());
    }
  }
}

void NodeConnection::sort(wire::Frame frame) {
  using wire::FrameType;
  const wire::FrameHeader& header = frame.header;
  if (header.type == FrameType::ping) {
    wire::FrameHeader pong;
    pong.type = FrameType::pong;
    // A peer that pings without reading does not get a queue of answers.
    if (small_writes_.running() < 64) small_writes_.spawn(write_small(shared_from_this(), pong));
    return;
  }
  if (header.type == FrameType::error && header.request.is_nil()) {
    auto message = wire::parse<wire::ErrorMessage>(frame.json);
    close(message ? wire::to_error(message.value()) : std::move(message).error());
    return;
  }
  const auto found = inboxes_.find(header.request);
  if (found == inboxes_.end()) return;  // a late word about a request that has ended, or a frame of a later version
  const std::shared_ptr<Inbox> inbox = found->second;
  inbox->received += frame_bytes(frame.json.size(), frame.payload.size());
  Outcome<void> taken = done();
  switch (header.type) {
    case FrameType::upload_at:
      inbox->upload_at = header.offset;
      break;
    case FrameType::accepted:
      inbox->accepted = true;
      inbox->accepted_at = Clock::now();
      break;
    case FrameType::error: {
      auto message = wire::parse<wire::ErrorMessage>(frame.json);
      if (message) {
        inbox->refused = std::move(message).value();
      } else {
        taken = std::move(message).error();
      }
      break;
    }
    case FrameType::result:
    case FrameType::result_data:
      taken = take_result(*inbox, frame);
      break;
    case FrameType::result_part:
      taken = take_part(*inbox, frame);
      break;
    default:
      return;
  }
  if (!taken) {
    inbox->refused = wire::to_message(taken.error());
  }
  inbox->bell.ring();
}

Outcome<void> NodeConnection::take_result(Inbox& inbox, const wire::Frame& frame) {
  if (inbox.whole) return done();  // repeated after a resubmission that crossed it
  if (frame.header.type == wire::FrameType::result) {
    BOOST_OUTCOME_TRY(wire::ResultMessage message, wire::parse<wire::ResultMessage>(frame.json));
    std::uint64_t sum = 0;
    for (const wire::TensorSpec& spec : message.tensors) {
      BOOST_OUTCOME_TRY(wire::check(spec));
      if (__builtin_add_overflow(sum, spec.bytes, &sum)) return Error{Errc::bad_frame, "a result of over 2^64 bytes"};
    }
    if (message.tensors.size() > wire::kMaxTensors || sum != message.bytes) {
      return Error{Errc::bad_frame, "a result of " + std::to_string(message.tensors.size()) + " tensors and " +
                                        std::to_string(sum) + " bytes that announces " + std::to_string(message.bytes)};
    }
    if (sum > kMaxResultBytes) {
      return Error{Errc::result_too_large,
                   std::to_string(sum) + " bytes; this client takes " + std::to_string(kMaxResultBytes)};
    }
    inbox.result = std::move(message);
    inbox.payload.clear();
  } else if (!inbox.result || frame.header.offset != inbox.payload.size()) {
    return Error{Errc::bad_frame, "a part of a result at " + std::to_string(frame.header.offset) + ", expected " +
                                      std::to_string(inbox.payload.size())};
  }
  if (frame.payload.size() > inbox.result->bytes - inbox.payload.size()) {
    return Error{Errc::bad_frame, "more bytes than the result announced"};
  }
  // Grows with what arrives: the announced size alone reserves nothing.
  inbox.payload.insert(inbox.payload.end(), frame.payload.begin(), frame.payload.end());
  inbox.whole = inbox.payload.size() == inbox.result->bytes;
  const bool last = (frame.header.flags & wire::kLastPart) != 0;
  if (last && !inbox.whole) {
    return Error{Errc::bad_frame, "the result ends after " + std::to_string(inbox.payload.size()) + " of " +
                                      std::to_string(inbox.result->bytes) + " bytes"};
  }
  return done();
}

/// Bytes that the peer's kernel has acknowledged.
std::uint64_t NodeConnection::acknowledged() const {
  int queued = 0;
  if (::ioctl(stream_->native_handle(), SIOCOUTQ, &queued) != 0 || queued < 0) queued = 0;
  const std::uint64_t written = stream_->bytes_written();
  return written - std::min<std::uint64_t>(written, static_cast<std::uint64_t>(queued));
}

asio::awaitable<void> NodeConnection::watch(Self self) {
  // On a slow link an upload may fill the buffers for a long time before a pong can come back: bytes that the other
  // kernel acknowledges count as life, but only uploads' worth of them, since a stopped process still has its pings
  // acknowledged.
  constexpr std::uint64_t kUploadProgress = 16 * 1024;
  std::uint64_t read = self->stream_->bytes_read();
  std::uint64_t taken = self->acknowledged();
  Instant alive = Clock::now();
  Instant pinged = alive;
  while (!self->why_) {
    const Instant next = std::min(after(pinged, self->pace_.ping_every), after(alive, self->pace_.silence));
    co_await self->closed_.wait_until(std::max(next, after(Clock::now(), milliseconds(5))));
    if (self->why_) co_return;
    const Instant now = Clock::now();
    const std::uint64_t taken_now = self->acknowledged();
    if (self->stream_->bytes_read() != read) self->heard_ = now;
    if (self->stream_->bytes_read() != read || taken_now >= taken + kUploadProgress) {
      read = self->stream_->bytes_read();
      taken = taken_now;
      alive = now;
    }
    if (now >= after(alive, self->pace_.silence)) {
      self->close(
          Error{Errc::timeout, self->node_ + " was silent for " + std::to_string(self->pace_.silence.count()) + " ms"});
      co_return;
    }
    if (now >= after(pinged, self->pace_.ping_every)) {
      pinged = now;
      wire::FrameHeader ping;
      ping.type = wire::FrameType::ping;
      if (!self->ping_pending_) self->small_writes_.spawn(write_small(self, ping));
    }
  }
}

}  // namespace gearbox::client
