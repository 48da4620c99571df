#include "session/device_session.hpp"

#include <sys/socket.h>

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/login.hpp"
#include "session/scratch.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {
constexpr milliseconds kHandshakeLimit{10'000};
/// For the rest of a frame whose header is there: a peer that sends slower than this is as good as gone.
constexpr milliseconds kBodyLimit{30'000};

FrameHeader header_of(FrameType type, const RequestId& id = {}) {
  FrameHeader header;
  header.type = type;
  header.request = id;
  return header;
}
}  // namespace

DeviceSession::DeviceSession(Service& service, Requests& requests, std::shared_ptr<FrameStream> stream, Door door)
    : service_(service), requests_(requests), stream_(std::move(stream)), door_(door) {}

void DeviceSession::close() {
  stream_->close();
}

asio::awaitable<void> DeviceSession::serve(Self self) {
  // The loop is written out here: an idle connection waits inside of it, and each coroutine's frame is part of what it
  // costs.
  Outcome<void> going = co_await open(self);
  const bool opened = going.has_value();
  bool pinged = false;
  while (going) {
    const milliseconds idle = self->service_.config()->node.limits.idle;
    Outcome<FrameHeader> header = co_await FrameStream::read_header(self->stream_, idle);
    if (header) {
      pinged = false;
      going = co_await handle(self, header.value());
    } else if (header.error().code == Errc::timeout && !pinged) {
      pinged = true;  // silent for the whole time: ask once, then it is gone
      self->send(header_of(FrameType::ping), {});
    } else {
      going = header.error();
    }
  }
  if (going.error().code != Errc::closed) self->log_end(opened, going.error());
  const bool for_good = self->is_gone_for_good(going.error());
  self->requests_.left(self.get(), self->joined_ ? &self->identity_.ticket.device : nullptr,
                       for_good ? Requests::End::for_good : Requests::End::lost);
  self->stream_->close();
}

bool DeviceSession::is_gone_for_good(const Error& error) const {
  if (keeps_) return false;
  // The peer's own orderly end: a cut has another code, and what we closed ourselves is not open any more.
  if (error.code == Errc::closed && stream_->is_open()) return true;
  // There are no cuts within a host: the process has ended. The kernel says so by "reset" when it had not read all, and
  // whoever writes may hear of it first.
  return door_ == Door::local && (wrote_to_nobody_ || (error.code == Errc::io_error && stream_->is_open()));
}

void DeviceSession::give_up(const Error& error) {
  if (error.code == Errc::closed && stream_->is_open()) wrote_to_nobody_ = true;
  stream_->close();
}

void DeviceSession::log_end(bool opened, const Error& error) {
  // Strangers cause these lines as often as they like: a few in ten seconds tell as much.
  if (!service_.log.allows(Clock::now())) return;
  spdlog::info("session: {} peer={} user={} reason=\"{}\"{}", opened ? "ended" : "refused", stream_->peer(),
               escaped(identity_.ticket.user), escaped(describe(error)), service_.log.note());
}

asio::awaitable<Outcome<void>> DeviceSession::open(Self self) {
  if (self->door_ == Door::sealed) {
    Outcome<void> sealed =
        co_await FrameStream::accept_sealed(self->stream_, *self->service_.channel_keys, kHandshakeLimit);
    if (!sealed) co_return sealed.error();
  }
  // No payload before the peer has said who it is.
  Outcome<wire::Frame> first = co_await FrameStream::read_frame(self->stream_, kHandshakeLimit, 0);
  if (!first) co_return first.error();
  if (self->door_ == Door::local && first.value().header.type == FrameType::control) {
    self->answer_control(first.value().json);
    co_return done();
  }
  Outcome<wire::Hello> hello = Error{Errc::bad_frame, "the first frame is no hello"};
  if (first.value().header.type == FrameType::hello) hello = wire::parse<wire::Hello>(first.value().json);
  Outcome<void> identified = hello ? self->identify(hello.value()) : Outcome<void>(hello.error());
  if (identified && self->door_ == Door::sealed && !self->identity_.ticket.is_between_nodes()) {
    identified = self->requests_.joined(self->identity_.ticket.device);
    self->joined_ = identified.has_value();
  }
  if (!identified) {
    std::string text = wire::to_json(wire::to_message(identified.error(), retry_after_ms(identified.error())));
    co_await write(self, header_of(FrameType::error), std::move(text));
    co_return identified.error();
  }
  self->identified_ = true;
  self->keeps_ = hello.value().keep;
  wire::HelloOk ok;
  ok.name = self->service_.node;
  // The snapshot itself is not kept: a slow peer must not hold it while it reads.
  ok.idle_ms = static_cast<std::uint32_t>(self->service_.config()->node.limits.idle.count());
  ok.max_upload_bytes = self->service_.config()->node.limits.max_upload_bytes;
  co_await write(self, header_of(FrameType::hello_ok), wire::to_json(ok));
  co_return done();
}

Outcome<void> DeviceSession::identify(const wire::Hello& hello) {
  if (door_ == Door::local) {
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (::getsockopt(stream_->native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
      return Error{Errc::not_allowed, "the peer's user is not known"};
    }
    // Whoever may open the socket (mode 0600) may use every task; each user is a device of its own.
    std::memcpy(identity_.ticket.device.bytes.data(), &peer.uid, sizeof(peer.uid));
    identity_.ticket.user = "uid-" + std::to_string(peer.uid);
    identity_.ticket.tasks = {"*"};
    identity_.local = true;
    return done();
  }
  const bool is_node = hello.role == "node";  // of another host
  if (hello.role != "device" && !is_node)
    return Error{Errc::not_allowed, "a node serves devices, not role '" + escaped(hello.role, 32) + "'"};
  BOOST_OUTCOME_TRY(link::check_hello(hello, stream_->h()));
  BOOST_OUTCOME_TRY(identity_.ticket, service_.check_ticket(hello.ticket, hello.key));
  if (is_node != identity_.ticket.is_between_nodes()) {
    return Error{Errc::not_allowed, "a node comes for ranks, or to decide on groups, and nobody else does"};
  }
  identity_.ticket.node = std::string();  // it was us; an idle connection keeps no more than it needs
  identity_.ticket.device = hello.key;
  return done();
}

asio::awaitable<Outcome<void>> DeviceSession::handle(Self self, FrameHeader header) {
  // Nothing but control is for those who did not say hello.
  if (!self->identified_ && header.type != FrameType::control) {
    co_return Error{Errc::bad_frame, "a frame before hello"};
  }
  switch (header.type) {
    case FrameType::submit: {
      Outcome<void> read = co_await read_submit(self, header);
      co_return read;
    }
    case FrameType::upload_data: {
      Outcome<void> read = co_await read_chunk(self, header);
      co_return read;
    }
    case FrameType::ranks_open:
    case FrameType::gears_open: {
      Outcome<void> served = co_await serve_carried(self, header);
      co_return served;
    }
    case FrameType::control: {
      Bytes body(header.json_bytes + header.payload_bytes);
      Outcome<void> read = co_await FrameStream::read_body(self->stream_, body, kBodyLimit);
      if (!read) co_return read.error();
      if (self->door_ != Door::local) co_return Error{Errc::not_allowed, "control frames come from this host only"};
      self->answer_control(std::string(text_of(ByteView(body).first(header.json_bytes))));
      co_return done();
    }
    default:
      break;
  }
  Outcome<void> skipped = co_await FrameStream::skip_body(self->stream_, kBodyLimit);
  if (!skipped) co_return skipped.error();
  const RequestKey key{self->identity_.ticket.device, header.request};
  switch (header.type) {
    case FrameType::ping:
      self->send(header_of(FrameType::pong), {});
      break;
    case FrameType::cancel:
      self->requests_.cancel(key);
      break;
    case FrameType::part_ack:
      self->requests_.take_parts(key, self.get(), header.part);
      break;
    case FrameType::result_ack:
      self->requests_.acknowledge(key);
      break;
    default:
      break;  // pong, and whatever a later version knows
  }
  co_return done();
}

asio::awaitable<Outcome<void>> DeviceSession::read_submit(Self self, FrameHeader header) {
  Bytes body(header.json_bytes + header.payload_bytes);
  Outcome<void> read = co_await FrameStream::read_body(self->stream_, body, kBodyLimit);
  if (!read) co_return read.error();
  const ByteView json = ByteView(body).first(header.json_bytes);
  const ByteView inlined = ByteView(body).subspan(header.json_bytes);
  Outcome<wire::Submit> submit = wire::parse<wire::Submit>(text_of(json));
  const bool inlines = (header.flags & wire::kInlinePayload) != 0 && !inlined.empty();
  if (inlines) self->brings_its_bytes_ = header.request;
  std::uint32_t wait_ms = 0;
  Outcome<void> announced = done();
  if (submit) {
    announced = self->requests_.announce(self->identity_, header, std::move(submit).value(), self, wait_ms);
  } else {
    announced = submit.error();
  }
  self->brings_its_bytes_ = {};
  if (!announced && announced.error().code == Errc::expired_ticket) {
    // Not this request's fault alone: the session ends, and the device comes back with a new ticket and the same id.
    std::string text = wire::to_json(wire::to_message(announced.error()));
    co_await write(self, header_of(FrameType::error), std::move(text));
    co_return announced.error();
  }
  if (!announced) {
    self->report(header.request, announced.error(), wait_ms);
    co_return done();
  }
  if (!inlines) co_return done();
  const RequestKey key{self->identity_.ticket.device, header.request};
  const RequestPtr request = self->requests_.receiving(key, self.get());
  // Still waiting for memory, or known already: the bytes are dropped, and the device sends them when upload_at asks
  // for them.
  if (!request || request->upload.offset() != 0 || request->over) co_return done();
  std::uint64_t offset = 0;
  while (offset < inlined.size()) {
    const link::UploadReceiver::Place place = request->upload.place();
    const std::size_t bytes = std::min<std::uint64_t>(place.left_in_input, inlined.size() - offset);
    if (bytes == 0 || request->ingest.is_coded(place.input)) {
      self->requests_.fail(
          request,
          Error{Errc::bad_frame, "only stored inputs may come along with the submit, and no more than announced"});
      co_return done();
    }
    Outcome<Ingest::Room> room = request->ingest.place(place.input, place.offset_in_input, bytes);
    if (!room) {
      self->requests_.fail(request, room.error());
      co_return done();
    }
    std::memcpy(room.value().bytes.data(), inlined.data() + offset, bytes);
    self->requests_.chunk(request, offset, room.value().bytes);
    offset += bytes;
  }
  co_return done();
}

asio::awaitable<Outcome<void>> DeviceSession::read_chunk(Self self, FrameHeader header) {
  const RequestKey key{self->identity_.ticket.device, header.request};
  const RequestPtr request = self->requests_.receiving(key, self.get());
  const bool expected = request && header.json_bytes == 0 && header.payload_bytes > 0 &&
                        header.offset == request->upload.offset() &&
                        header.payload_bytes <= request->upload.place().left_in_input;
  if (!expected) {
    Outcome<void> skipped = co_await FrameStream::skip_body(self->stream_, kBodyLimit);
    if (!skipped) co_return skipped.error();
    // Out of step: say where we are. Of a request that is over or not ours the device has been told, or will be when it
    // asks.
    if (request) self->upload_at(header.request, request->upload.offset());
    co_return done();
  }
  const link::UploadReceiver::Place place = request->upload.place();
  if (!request->ingest.is_coded(place.input)) {
    Outcome<Ingest::Room> room = request->ingest.place(place.input, place.offset_in_input, header.payload_bytes);
    if (!room) co_return room.error();
    request->reader = self.get();
    Outcome<void> read = co_await FrameStream::read_body(self->stream_, room.value().bytes, kBodyLimit);
    if (request->reader == self.get()) request->reader = nullptr;
    if (!read) co_return read.error();
    if (request->listener.lock() != self) co_return done();  // another connection has taken the upload over
    self->requests_.chunk(request, header.offset, room.value().bytes);
    co_return done();
  }
  Scratch scratch(header.payload_bytes);
  request->reader = self.get();
  Outcome<void> read = co_await FrameStream::read_body(self->stream_, scratch.bytes(), kBodyLimit);
  if (request->reader == self.get()) request->reader = nullptr;
  if (!read) co_return read.error();
  // Somebody else may have taken the upload over while we waited; then the tile is no longer the next one.
  if (request->over || request->listener.lock() != self || header.offset != request->upload.offset()) co_return done();
  Outcome<void> decoded = request->ingest.decode(place.input, scratch.bytes());
  if (!decoded) {
    self->requests_.fail(request, decoded.error());
    co_return done();
  }
  self->requests_.chunk(request, header.offset, scratch.bytes());
  co_return done();
}

void DeviceSession::answer_control(const std::string& command) {
  Outcome<std::string> answer = service_.control(command);
  if (!answer) return report({}, answer.error(), 0);
  send(header_of(FrameType::control_answer), std::move(answer).value());
}

void DeviceSession::send(FrameHeader header, std::string json) {
  if (!stream_->is_open()) return;
  asio::co_spawn(*service_.io, write(shared_from_this(), header, std::move(json)), asio::detached);
}

asio::awaitable<void> DeviceSession::write(Self self, FrameHeader header, std::string json) {
  Outcome<void> written =
      co_await FrameStream::write_frame(self->stream_, header, std::move(json), ByteView(), kWriteLimit);
  if (!written) self->give_up(written.error());
}

void DeviceSession::report(const RequestId& id, const Error& error, std::uint32_t retry_after_ms) {
  send(header_of(FrameType::error, id), wire::to_json(wire::to_message(error, retry_after_ms)));
}

void DeviceSession::upload_at(const RequestId& id, std::uint64_t offset) {
  // Its bytes are here and about to be taken: asking for them would make the device send them again.
  if (offset == 0 && id == brings_its_bytes_ && !id.is_nil()) return;
  FrameHeader header = header_of(FrameType::upload_at, id);
  header.offset = offset;
  send(header, {});
}

void DeviceSession::accepted(const RequestId& id) {
  send(header_of(FrameType::accepted, id), {});
}

void DeviceSession::failed(const RequestId& id, const Error& error, std::uint32_t retry_after_ms) {
  report(id, error, retry_after_ms);
}

void DeviceSession::replaced() {
  stream_->close();
}

void DeviceSession::finished(const RequestPtr& request) {
  if (!stream_->is_open()) return;
  // A device that asks again for an answer that is on its way gets it once.
  if (std::find(answers_.begin(), answers_.end(), request) != answers_.end()) return;
  answers_.push_back(request);
  if (answers_.size() == 1) asio::co_spawn(*service_.io, write_results(shared_from_this()), asio::detached);
}

asio::awaitable<void> DeviceSession::write_results(Self self) {
  while (!self->answers_.empty()) {
    Outcome<void> written = co_await write_result(self, self->answers_.front());
    self->answers_.erase(self->answers_.begin());
    if (written) continue;
    self->answers_.clear();
    self->give_up(written.error());
  }
}

asio::awaitable<Outcome<void>> DeviceSession::write_result(Self self, RequestPtr request) {
  // Pieces of many slabs go into frames of up to kMaxPayloadBytes. Copied: a result is small beside its upload, and the
  // slabs may be parked while a slow device reads.
  const std::uint64_t total = request->result.bytes;
  std::uint64_t sent = 0;
  std::size_t tensor = 0;
  std::size_t piece = 0;
  std::uint64_t in_piece = 0;
  bool first = true;
  do {
    Bytes payload(std::min<std::uint64_t>(total - sent, wire::kMaxPayloadBytes));
    std::size_t filled = 0;
    while (filled < payload.size()) {
      const auto& pieces = request->tensors[tensor].pieces;
      if (piece == pieces.size()) {
        ++tensor;
        piece = 0;
        continue;
      }
      const ByteView bytes = pieces[piece].bytes().subspan(in_piece);
      const std::size_t part = std::min(bytes.size(), payload.size() - filled);
      if (part > 0) std::memcpy(payload.data() + filled, bytes.data(), part);
      filled += part;
      in_piece += part;
      if (part == bytes.size()) {
        ++piece;
        in_piece = 0;
      }
    }
    FrameHeader header = header_of(first ? FrameType::result : FrameType::result_data, request->key.id);
    header.offset = sent;
    header.attempt = request->announced.attempt;
    header.tenant = request->identity.ticket.tenant;
    sent += payload.size();
    if (sent == total) header.flags |= wire::kLastPart;
    std::string json = first ? wire::to_json(request->result) : std::string();
    first = false;
    Outcome<void> written =
        co_await FrameStream::write_frame(self->stream_, header, std::move(json), payload, kWriteLimit);
    if (!written) co_return written.error();
    self->requests_.sent(request);
  } while (sent < total);
  stop_point("node.result.sent");
  co_return done();
}

}  // namespace gearbox::session
