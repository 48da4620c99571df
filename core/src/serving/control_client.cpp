#include "serving/control_client.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <utility>

#include "gearbox/wire/messages.hpp"
#include "serving/local_socket.hpp"

namespace gearbox::serving {

namespace asio = boost::asio;

Outcome<std::shared_ptr<net::FrameStream>> dial_control(asio::any_io_executor executor,
                                                        const std::filesystem::path& socket) {
  BOOST_OUTCOME_TRY(const int descriptor, connect_local(socket));
  return net::FrameStream::adopt(std::move(executor), descriptor, socket.string());
}

asio::awaitable<Outcome<std::string>> exchange_control(std::shared_ptr<net::FrameStream> stream, std::string command,
                                                       milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  wire::FrameHeader header;
  header.type = wire::FrameType::control;
  Outcome<void> sent = co_await net::FrameStream::write_frame(stream, header, std::move(command), ByteView(), within);
  if (!sent) co_return sent.error();
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) co_return Error{Errc::timeout, stream->peer() + ": no answer"};
    Outcome<wire::Frame> frame = co_await net::FrameStream::read_frame(stream, left);
    if (!frame) co_return frame.error();
    if (frame.value().header.type == wire::FrameType::control_answer) co_return std::move(frame.value().json);
    if (frame.value().header.type == wire::FrameType::error) {
      Outcome<wire::ErrorMessage> message = wire::parse<wire::ErrorMessage>(frame.value().json);
      if (!message) co_return message.error();
      co_return wire::to_error(message.value());
    }
    // Anything else is of a later version: skipped.
  }
}

asio::awaitable<Outcome<std::string>> ask_control(asio::any_io_executor executor, std::filesystem::path socket,
                                                  std::string command, milliseconds within) {
  Outcome<std::shared_ptr<net::FrameStream>> stream = dial_control(std::move(executor), socket);
  if (!stream) co_return stream.error();
  Outcome<std::string> answer = co_await exchange_control(stream.value(), std::move(command), within);
  stream.value()->close();
  co_return answer;
}

namespace {

/// co_spawn wants a result that can be empty, which an Outcome cannot: so it goes out through a pointer.
asio::awaitable<void> ask_into(std::shared_ptr<Outcome<std::string>> result, asio::any_io_executor executor,
                               std::filesystem::path socket, std::string command, milliseconds within) {
  Outcome<std::string> answer =
      co_await ask_control(std::move(executor), std::move(socket), std::move(command), within);
  *result = std::move(answer);
}

}  // namespace

Outcome<std::string> ask_control_now(const std::filesystem::path& socket, const std::string& command,
                                     milliseconds within) {
  asio::io_context io(1);
  auto result = std::make_shared<Outcome<std::string>>(Error{Errc::timeout, socket.string() + ": no answer"});
  asio::co_spawn(io, ask_into(result, io.get_executor(), socket, command, within), asio::detached);
  io.run_for(within + milliseconds(500));
  return *result;
}

}  // namespace gearbox::serving
