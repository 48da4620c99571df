#include "net/frame_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "gearbox/link/keys.hpp"
#include "net/buffers.hpp"

namespace gearbox::net {

namespace {

constexpr std::size_t kSealedHeaderBytes = wire::kHeaderBytes + link::kSealBytes;
constexpr std::size_t kMacBytes = link::kSealBytes - 1;

iovec part(ByteView bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// Marks the writer broken unless the frame went out whole: also when the coroutine is destroyed in the middle.
class WholeFrame {
 public:
  explicit WholeFrame(std::optional<Error>& broken) : broken_(broken) {}
  ~WholeFrame() {
    if (!whole_ && !broken_) broken_ = Error{Errc::closed, "a frame was cut while it was written"};
  }
  WholeFrame(const WholeFrame&) = delete;
  WholeFrame& operator=(const WholeFrame&) = delete;
  void whole() { whole_ = true; }

 private:
  std::optional<Error>& broken_;
  bool whole_ = false;
};

/// An enrolment's JSON holds a password: it is wiped however the write ends.
class WipedAfterwards {
 public:
  explicit WipedAfterwards(std::string& text) : text_(text) {}
  ~WipedAfterwards() { link::wipe(std::as_writable_bytes(std::span(text_))); }
  WipedAfterwards(const WipedAfterwards&) = delete;
  WipedAfterwards& operator=(const WipedAfterwards&) = delete;

 private:
  std::string& text_;
};

}  // namespace

asio::awaitable<Outcome<void>> FrameWriter::write(wire::FrameHeader header, std::string json, ByteView payload,
                                                  Instant deadline) {
  std::optional<WipedAfterwards> wiped;
  if (header.type == wire::FrameType::enrol) wiped.emplace(json);
  if (json.size() > wire::kMaxJsonBytes || payload.size() > wire::kMaxPayloadBytes) {
    co_return Error{Errc::frame_too_large, "a frame of " + std::to_string(json.size()) + " bytes of JSON and " +
                                               std::to_string(payload.size()) + " of payload is not sent"};
  }
  TurnQueue::Turn turn(turns_, bytes_.executor());
  Outcome<void> ours = co_await turn.take(deadline);
  if (!bytes_.is_open()) co_return Error{Errc::closed, "closed on this side"};
  if (!ours) co_return ours;
  if (broken_) co_return *broken_;
  header.json_bytes = static_cast<std::uint32_t>(json.size());
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const wire::HeaderBytes plain = wire::encode(header);
  const ByteView json_bytes = view_of(json);
  WholeFrame frame(broken_);
  Outcome<void> written = done();
  if (!channel_) {
    written = co_await write_plain(plain, json_bytes, payload, deadline);
  } else if (kSealedHeaderBytes + json.size() + payload.size() + link::kSealBytes <= kWriteBytes) {
    written = co_await write_small(plain, json_bytes, payload, deadline);
  } else {
    written = co_await write_big(plain, json_bytes, payload, deadline);
  }
  if (written) {
    frame.whole();
  } else {
    broken_ = written.error();
  }
  co_return written;
}

asio::awaitable<Outcome<void>> FrameWriter::write_plain(const wire::HeaderBytes& header, ByteView json,
                                                        ByteView payload, Instant deadline) {
  std::array<iovec, 3> parts{part(header), part(json), part(payload)};
  std::size_t first = 0;
  for (;;) {
    Outcome<std::size_t> sent = bytes_.write_some(std::span(parts).subspan(first), false);
    if (!sent) co_return sent.error();
    std::size_t bytes = sent.value();
    const bool stuck = bytes == 0;
    while (first < parts.size() && bytes >= parts[first].iov_len) bytes -= parts[first++].iov_len;
    if (first == parts.size()) co_return done();
    parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + bytes;
    parts[first].iov_len -= bytes;
    if (stuck) {
      Outcome<void> ready = co_await bytes_.wait_writable(deadline);
      if (!ready) co_return ready.error();
    }
  }
}

asio::awaitable<Outcome<void>> FrameWriter::write_small(const wire::HeaderBytes& header, ByteView json,
                                                        ByteView payload, Instant deadline) {
  const ByteSpan room = scratch().first(kWriteBytes);
  const std::size_t body_bytes = json.size() + payload.size();
  channel_->seal(header, {}, {}, room.first(kSealedHeaderBytes));
  std::size_t bytes = kSealedHeaderBytes;
  if (body_bytes != 0) {
    channel_->seal(json, payload, header, room.subspan(kSealedHeaderBytes, body_bytes + link::kSealBytes));
    bytes += body_bytes + link::kSealBytes;
  }
  return send(room.first(bytes), false, deadline);
}

asio::awaitable<Outcome<void>> FrameWriter::write_big(const wire::HeaderBytes& header, ByteView json, ByteView payload,
                                                      Instant deadline) {
  ByteSpan room = scratch().first(kWriteBytes);
  channel_->seal(header, {}, {}, room.first(kSealedHeaderBytes));
  channel_->seal_begin(header, room[kSealedHeaderBytes]);
  std::size_t filled = kSealedHeaderBytes + 1;
  for (;;) {
    for (ByteView* source : {&json, &payload}) {
      const std::size_t bytes = std::min(source->size(), room.size() - filled);
      if (bytes == 0) continue;
      channel_->seal_part(source->first(bytes), room.subspan(filled, bytes));
      *source = source->subspan(bytes);
      filled += bytes;
    }
    const bool last = json.empty() && payload.empty() && room.size() - filled >= kMacBytes;
    if (last) {
      const auto tail = room.subspan(filled).first<kMacBytes>();
      channel_->seal_end(tail);
      filled += kMacBytes;
    }
    Outcome<void> sent = co_await send(room.first(filled), !last, deadline);
    if (!sent || last) co_return sent;
    room = scratch().first(kWriteBytes);  // this thread's: the wait may have ended in another one
    filled = 0;
  }
}

asio::awaitable<Outcome<void>> FrameWriter::send(ByteView from_scratch, bool more, Instant deadline) {
  std::array<iovec, 1> parts{part(from_scratch)};
  Outcome<std::size_t> sent = bytes_.write_some(parts, more);
  if (!sent) co_return sent.error();
  if (sent.value() == from_scratch.size()) co_return done();
  // The scratch belongs to others during a wait; only a peer that is slower than we are costs this copy.
  const ByteView rest = from_scratch.subspan(sent.value());
  const Bytes kept(rest.begin(), rest.end());
  Outcome<void> written = co_await write_raw(kept, deadline);
  co_return written;
}

asio::awaitable<Outcome<void>> FrameWriter::write_raw(ByteView bytes, Instant deadline) {
  while (!bytes.empty()) {
    std::array<iovec, 1> parts{part(bytes)};
    Outcome<std::size_t> sent = bytes_.write_some(parts, false);
    if (!sent) co_return sent.error();
    bytes = bytes.subspan(sent.value());
    if (sent.value() != 0) continue;
    Outcome<void> ready = co_await bytes_.wait_writable(deadline);
    if (!ready) co_return ready.error();
  }
  co_return done();
}

void FrameWriter::say_end() {
  if (!channel_ || broken_ || !turns_.is_free()) return;
  const wire::HeaderBytes nothing{};
  std::array<std::byte, kSealedHeaderBytes> mark{};
  channel_->seal(nothing, {}, {}, mark, true);
  broken_ = Error{Errc::closed, "the end was said already"};
  const std::array<iovec, 1> parts{part(mark)};
  // "As far as the socket takes it": a peer that does not read must not keep us, and finds the mark missing.
  Outcome<std::size_t> sent = bytes_.write_some(parts, false);
  static_cast<void>(sent);
}

}  // namespace gearbox::net
