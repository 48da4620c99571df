#include "gearbox/net/frame_stream.hpp"

#include <cstdio>
#include <cstdlib>

#include "gearbox/link/secure_channel.hpp"
#include "net/buffers.hpp"
#include "net/byte_stream.hpp"
#include "net/frame_reader.hpp"
#include "net/frame_writer.hpp"

namespace gearbox::net {

struct FrameStream::State {
  State(std::shared_ptr<ByteStream> from, std::string name)
      : bytes(std::move(from)), peer(std::move(name)), reader(*bytes, channel), writer(*bytes, channel) {}
  std::shared_ptr<ByteStream> bytes;
  std::string peer;
  std::optional<link::SecureChannel> channel;
  FrameReader reader;
  FrameWriter writer;
};

namespace {

constexpr int kReadsBeforeClose = 4;

/// A body goes exactly where its header said; anything else is a mistake of the calling code.
[[noreturn]] void wrong_body_size() {
  std::fputs("gearbox: broken invariant: a frame's body is read into memory of another size\n", stderr);
  std::abort();
}

}  // namespace

FrameStream::FrameStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
FrameStream::~FrameStream() {
  close();
}

Outcome<std::shared_ptr<FrameStream>> FrameStream::adopt(asio::any_io_executor executor, int descriptor,
                                                         std::string peer) {
  BOOST_OUTCOME_TRY(auto bytes, ByteStream::adopt(executor, descriptor));
  auto state = std::make_unique<State>(std::move(bytes), std::move(peer));
  return std::shared_ptr<FrameStream>(new FrameStream(std::move(state)));
}

asio::awaitable<Outcome<void>> FrameStream::connect_sealed(std::shared_ptr<FrameStream> self,
                                                           std::array<std::byte, 32> server_key, milliseconds within) {
  State& state = *self->state_;
  const Instant deadline = after(Clock::now(), within);
  link::ClientHandshake handshake(server_key);
  const auto hello = handshake.hello();
  Outcome<void> sent = co_await state.writer.write_raw(hello, deadline);
  if (!sent) co_return sent;
  Outcome<ByteView> reply = co_await state.reader.gather(link::kReplyBytes, &link::ClientHandshake::look_at, deadline);
  if (!reply) co_return reply.error();
  Outcome<link::ClientHandshake::Done> agreed = handshake.read_reply(reply.value());
  if (!agreed) co_return agreed.error();
  state.reader.drop(link::kReplyBytes);
  const auto finish = agreed.value().finish;
  sent = co_await state.writer.write_raw(finish, deadline);
  if (!sent) co_return sent;
  state.channel.emplace(std::move(agreed.value().channel));
  co_return done();
}

asio::awaitable<Outcome<void>> FrameStream::accept_sealed(std::shared_ptr<FrameStream> self,
                                                          const link::ChannelKeys& keys, milliseconds within) {
  State& state = *self->state_;
  const Instant deadline = after(Clock::now(), within);
  link::ServerHandshake handshake(keys);
  Outcome<ByteView> hello = co_await state.reader.gather(link::kHelloBytes, &link::ServerHandshake::look_at, deadline);
  if (!hello) co_return hello.error();
  Outcome<std::array<std::byte, link::kReplyBytes>> reply = handshake.read_hello(hello.value());
  state.reader.drop(link::kHelloBytes);
  if (!reply) {
    if (reply.error().code == Errc::unsupported_version) {
      const auto refusal = link::ServerHandshake::refusal();
      Outcome<void> told = co_await state.writer.write_raw(refusal, deadline);
      if (!told) co_return told;
    }
    co_return reply.error();
  }
  Outcome<void> sent = co_await state.writer.write_raw(reply.value(), deadline);
  if (!sent) co_return sent;
  Outcome<ByteView> finish = co_await state.reader.gather(link::kFinishBytes, nullptr, deadline);
  if (!finish) co_return finish.error();
  Outcome<link::SecureChannel> channel = handshake.read_finish(finish.value());
  if (!channel) co_return channel.error();
  state.reader.drop(link::kFinishBytes);
  state.channel.emplace(std::move(channel).value());
  co_return done();
}

asio::awaitable<Outcome<wire::FrameHeader>> FrameStream::read_header(std::shared_ptr<FrameStream> self,
                                                                     milliseconds within) {
  return self->state_->reader.header(after(Clock::now(), within));
}

asio::awaitable<Outcome<void>> FrameStream::read_body(std::shared_ptr<FrameStream> self, ByteSpan json_then_payload,
                                                      milliseconds within) {
  FrameReader& reader = self->state_->reader;
  if (json_then_payload.size() != reader.body_bytes()) wrong_body_size();
  Outcome<void> read = co_await reader.body(json_then_payload, after(Clock::now(), within));
  co_return read;
}

asio::awaitable<Outcome<void>> FrameStream::skip_body(std::shared_ptr<FrameStream> self, milliseconds within) {
  Outcome<void> skipped = co_await self->state_->reader.skip(after(Clock::now(), within));
  co_return skipped;
}

asio::awaitable<Outcome<wire::Frame>> FrameStream::read_frame(std::shared_ptr<FrameStream> self, milliseconds within,
                                                              std::uint32_t payload_limit) {
  FrameReader& reader = self->state_->reader;
  Outcome<wire::FrameHeader> header = co_await reader.header(after(Clock::now(), within));
  if (!header) co_return header.error();
  if (header.value().payload_bytes > payload_limit) {
    co_return Error{Errc::frame_too_large, "a payload of " + std::to_string(header.value().payload_bytes) +
                                               " bytes where at most " + std::to_string(payload_limit) +
                                               " are expected"};
  }
  Bytes body(reader.body_bytes());
  const Instant deadline = after(Clock::now(), within);
  Outcome<void> read = co_await reader.body(body, deadline);
  if (!read) co_return read.error();
  wire::Frame frame;
  frame.header = header.value();
  frame.json.assign(text_of(body).substr(0, frame.header.json_bytes));
  if (frame.header.payload_bytes != 0) {
    body.erase(body.begin(), body.begin() + frame.header.json_bytes);
    frame.payload = std::move(body);
  }
  co_return frame;
}

asio::awaitable<Outcome<void>> FrameStream::write_frame(std::shared_ptr<FrameStream> self, wire::FrameHeader header,
                                                        std::string json, ByteView payload, milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  Outcome<void> written = co_await self->state_->writer.write(header, std::move(json), payload, deadline);
  // A peer that does not read is let go. One that went away may have said why: that can still be read.
  if (!written && written.error().code == Errc::timeout) self->close();
  co_return written;
}

void FrameStream::close() {
  State& state = *state_;
  if (!state.bytes->is_open()) return;
  state.writer.say_end();
  // Bytes that lie unread would turn the close into a reset, which may overtake our last frame: take what is there.
  for (int i = 0; i < kReadsBeforeClose; ++i) {
    Outcome<std::size_t> got = state.bytes->read_some(scratch());
    if (!got || got.value() == 0) break;
  }
  state.bytes->close();
  state.writer.wake_all();
}

bool FrameStream::is_open() const {
  return state_->bytes->is_open();
}
bool FrameStream::sealed() const {
  return state_->channel.has_value();
}
ByteView FrameStream::h() const {
  return state_->channel ? state_->channel->h() : ByteView{};
}
const std::string& FrameStream::peer() const {
  return state_->peer;
}
std::uint64_t FrameStream::bytes_read() const {
  return state_->bytes->bytes_read();
}
std::uint64_t FrameStream::bytes_written() const {
  return state_->bytes->bytes_written();
}
int FrameStream::native_handle() const {
  return state_->bytes->native_handle();
}

}  // namespace gearbox::net
