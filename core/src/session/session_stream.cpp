// How a session sends streamed answers: the parts in order, then the end. Each stream has a writer of its own while
// there is something to send: one that waits for its device's acknowledgements holds up no other.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "session/device_session.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

/// `bytes` of the part from `from` on, all tensors one after the other.
Bytes bytes_of(const pipeline::RunPart& part, std::uint64_t from, std::uint64_t bytes) {
  Bytes out;
  out.reserve(bytes);
  for (const pipeline::ResultTensor& tensor : part.tensors) {
    for (const worker_pool::TensorRef& piece : tensor.pieces) {
      const ByteView all = piece.bytes();
      const std::uint64_t skip = std::min<std::uint64_t>(from, all.size());
      const ByteView rest = all.subspan(skip);
      from -= skip;
      const std::size_t take = std::min<std::size_t>(rest.size(), bytes - out.size());
      out.insert(out.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(take));
    }
  }
  return out;
}

}  // namespace

void DeviceSession::streaming(const RequestPtr& request) {
  if (!stream_->is_open()) return;
  if (std::find(streams_.begin(), streams_.end(), request) != streams_.end()) return;  // its writer looks again
  streams_.push_back(request);
  asio::co_spawn(*service_.io, write_stream(shared_from_this(), request), asio::detached);
}

asio::awaitable<void> DeviceSession::write_stream(Self self, RequestPtr request) {
  Outcome<void> written = co_await write_parts(self, request);
  std::erase(self->streams_, request);
  if (!written) {
    self->give_up(written.error());
    co_return;
  }
  const bool ours = request->listener.lock() == self;
  if (!ours || !request->over || request->ending || !request->stream->end_is_due()) co_return;
  if (request->error) {
    self->report(request->key.id, *request->error, request->retry_ms);
  } else {
    self->finished(request);
  }
}

/// All that may be sent just now. Errors: those of FrameStream::write_frame.
asio::awaitable<Outcome<void>> DeviceSession::write_parts(Self self, RequestPtr request) {
  while (request->listener.lock() == self) {  // else another connection goes on with it
    StreamOut::PartPtr part = request->stream->next();
    if (!part) break;
    Outcome<void> written = co_await write_part(self, request, std::move(part));
    if (!written) co_return written.error();
    if (request->over) self->requests_.sent(request);
  }
  co_return done();
}

asio::awaitable<Outcome<void>> DeviceSession::write_part(Self self, RequestPtr request, StreamOut::PartPtr part) {
  wire::PartMessage message;
  for (const pipeline::ResultTensor& tensor : part->tensors) {
    message.tensors.push_back(tensor.spec);
    message.bytes += tensor.spec.bytes;
  }
  std::uint64_t sent = 0;
  std::string json = wire::to_json(message);
  do {
    const Bytes payload = bytes_of(*part, sent, std::min<std::uint64_t>(message.bytes - sent, wire::kMaxPayloadBytes));
    FrameHeader header;
    header.type = FrameType::result_part;
    header.request = request->key.id;
    header.attempt = request->announced.attempt;
    header.tenant = request->identity.ticket.tenant;
    header.part = part->number;
    header.offset = sent;
    sent += payload.size();
    if (sent == message.bytes) header.flags |= wire::kLastPart;
    Outcome<void> written =
        co_await FrameStream::write_frame(self->stream_, header, std::move(json), payload, kWriteLimit);
    json.clear();  // of the first frame only
    if (!written) co_return written.error();
  } while (sent < message.bytes);
  co_return done();
}

}  // namespace gearbox::session
