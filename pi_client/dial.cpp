#include "dial.hpp"

#include <algorithm>

#include "gearbox/link/login.hpp"
#include "options.hpp"
#include "tasks.hpp"

namespace gearbox::client {

asio::awaitable<Outcome<std::shared_ptr<net::FrameStream>>> dial(Dialler dialler, std::string url,
                                                                 std::array<std::byte, 32> server_key,
                                                                 milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  auto work = [transport = dialler.transport, url, deadline] { return transport->connect(url, deadline); };
  Outcome<plugin::Connection> connected = co_await on_pool(*dialler.pool, std::move(work));
  if (!connected) co_return std::move(connected).error();
  // adopt() owns the descriptor from here on, also when it fails.
  auto stream = net::FrameStream::adopt(dialler.executor, connected.value().descriptor, connected.value().peer);
  if (!stream) co_return std::move(stream).error();
  const auto left =
      std::max(milliseconds{1}, std::chrono::duration_cast<milliseconds>(elapsed(Clock::now(), deadline)));
  Outcome<void> sealed = co_await net::FrameStream::connect_sealed(stream.value(), server_key, left);
  if (!sealed) {
    stream.value()->close();
    co_return Error{sealed.error().code, url + ": " + sealed.error().detail};
  }
  co_return std::move(stream).value();
}

asio::awaitable<Outcome<wire::Frame>> expect(std::shared_ptr<net::FrameStream> stream, wire::FrameType wanted,
                                             milliseconds within, milliseconds* retry_after, wire::FrameType also) {
  const Instant deadline = after(Clock::now(), within);
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(elapsed(Clock::now(), deadline));
    if (left <= milliseconds{0}) co_return Error{Errc::timeout, stream->peer() + " did not answer"};
    Outcome<wire::Frame> frame = co_await net::FrameStream::read_frame(stream, left);
    if (!frame) {
      Error error = std::move(frame).error();
      co_return Error{error.code, stream->peer() + ": " + (error.detail.empty() ? "no answer" : error.detail)};
    }
    const wire::FrameHeader header = frame.value().header;
    const bool is_other = also != wire::FrameType{} && header.type == also;
    if (header.type == wanted || is_other) co_return std::move(frame).value();
    if (header.type == wire::FrameType::error) {
      auto message = wire::parse<wire::ErrorMessage>(frame.value().json);
      if (!message) co_return std::move(message).error();
      if (retry_after != nullptr) *retry_after = milliseconds(message.value().retry_after_ms);
      co_return wire::to_error(message.value());
    }
    if (header.type == wire::FrameType::ping) {
      wire::FrameHeader pong;
      pong.type = wire::FrameType::pong;
      Outcome<void> written = co_await net::FrameStream::write_frame(stream, pong, std::string(), ByteView(), left);
      if (!written) co_return std::move(written).error();
    }
  }
}

asio::awaitable<Outcome<wire::HelloOk>> log_in(std::shared_ptr<net::FrameStream> stream, std::string user,
                                               const link::SigningKeys* keys, std::string ticket, milliseconds within,
                                               milliseconds* retry_after) {
  wire::Hello hello;
  hello.role = "device";
  hello.user = std::move(user);
  hello.ticket = std::move(ticket);
  hello.agent = kAgent;
  hello.keep = true;  // what we give up is cancelled one by one; a connection may also end to be made anew
  link::sign_hello(*keys, stream->h(), hello);
  wire::FrameHeader header;
  header.type = wire::FrameType::hello;
  Outcome<void> written =
      co_await net::FrameStream::write_frame(stream, header, wire::to_json(hello), ByteView(), within);
  if (!written) co_return std::move(written).error();
  Outcome<wire::Frame> answer = co_await expect(stream, wire::FrameType::hello_ok, within, retry_after);
  if (!answer) co_return std::move(answer).error();
  co_return wire::parse<wire::HelloOk>(answer.value().json);
}

}  // namespace gearbox::client
