#include "central/frames.hpp"

#include <utility>

#include "gearbox/wire/messages.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {
constexpr milliseconds kLinger{2'000};
constexpr int kLingerFrames = 16;
}  // namespace

asio::awaitable<Outcome<wire::Frame>> read_small(std::shared_ptr<FrameStream> stream, milliseconds within,
                                                 std::uint32_t max_json) {
  const Instant deadline = after(Clock::now(), within);
  Outcome<wire::FrameHeader> header = co_await FrameStream::read_header(stream, within);
  if (!header) co_return header.error();
  if (header.value().json_bytes > max_json || header.value().payload_bytes > 0) {
    co_return Error{Errc::frame_too_large,
                    "at most " + std::to_string(max_json) + " bytes of JSON and no payload are taken here"};
  }
  wire::Frame frame;
  frame.header = header.value();
  if (frame.header.json_bytes == 0) co_return frame;
  frame.json.resize(frame.header.json_bytes);
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  const ByteSpan into = std::as_writable_bytes(std::span(frame.json.data(), frame.json.size()));
  Outcome<void> read = co_await FrameStream::read_body(stream, into, std::max(milliseconds(1), left));
  if (!read) co_return read.error();
  co_return frame;
}

asio::awaitable<Outcome<void>> send(std::shared_ptr<FrameStream> stream, wire::FrameType type, RequestId request,
                                    std::string json) {
  wire::FrameHeader header;
  header.type = type;
  header.request = request;
  Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(json), ByteView(), kWriteWithin);
  co_return sent;
}

std::uint32_t retry_after_ms(const Error& error) {
  switch (error.code) {
    case Errc::overloaded:
    case Errc::no_node:
      return 1000;
    case Errc::shutting_down:
      return 2000;
    default:
      return 0;
  }
}

asio::awaitable<Outcome<void>> send_error(std::shared_ptr<FrameStream> stream, RequestId request, Error error,
                                          std::uint32_t retry_ms) {
  std::string json = wire::to_json(wire::to_message(error, retry_ms));
  Outcome<void> sent = co_await send(stream, wire::FrameType::error, request, std::move(json));
  co_return sent;
}

asio::awaitable<void> refuse(std::shared_ptr<FrameStream> stream, Error error, std::uint32_t retry_ms) {
  Outcome<void> sent = co_await send_error(stream, RequestId(), std::move(error), retry_ms);
  const Instant deadline = after(Clock::now(), kLinger);
  for (int i = 0; sent && i < kLingerFrames && Clock::now() < deadline; ++i) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    Outcome<wire::FrameHeader> header = co_await FrameStream::read_header(stream, std::max(milliseconds(1), left));
    if (!header) break;
    Outcome<void> skipped = co_await FrameStream::skip_body(stream, std::max(milliseconds(1), left));
    if (!skipped) break;
  }
}

}  // namespace gearbox::central
