// stream_fixture.hpp: one io_context, pairs of connected sockets, and a way to run coroutines to their end within a
// deadline.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "core/link/code_of.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/net/wakeup.hpp"

namespace gearbox::net {

inline constexpr milliseconds kSoon{
    5000};                                 // what must happen happens within this; a test that works never waits for it
inline constexpr milliseconds kShort{30};  // for timeouts that a test wants to see

class StreamFixture : public testing::Test {
 protected:
  using Stream = std::shared_ptr<FrameStream>;

  /// Runs the coroutines until all have ended.
  template <class... Tasks>
  void run(Tasks... tasks) {
    std::size_t left = sizeof...(tasks);
    const auto ended = [&left](std::exception_ptr problem) {
      EXPECT_EQ(problem, nullptr) << "an exception left a coroutine";
      --left;
    };
    (asio::co_spawn(io_, std::move(tasks), ended), ...);
    io_.restart();
    const Instant deadline = after(Clock::now(), milliseconds(20'000));
    while (left != 0 && Clock::now() < deadline) io_.run_one_for(milliseconds(100));
    ASSERT_EQ(left, 0U) << "a coroutine did not end";
  }

  static std::pair<int, int> unix_pair() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {ends[0], ends[1]};
  }

  static std::pair<int, int> tcp_pair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), length), 0);
    const int server = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ::close(listener);
    const int on = 1;  // for ends that a test plays by hand: no waiting for acknowledgements
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {client, server};
  }

  Stream adopt(int descriptor) {
    auto stream = FrameStream::adopt(io_.get_executor(), descriptor, "test");
    EXPECT_TRUE(stream.has_value());
    return stream.value();
  }

  /// Two ends after a good handshake.
  std::pair<Stream, Stream> sealed_pair(std::pair<int, int> descriptors = tcp_pair()) {
    Stream client = adopt(descriptors.first);
    Stream server = adopt(descriptors.second);
    run(expect_connected(client, keys_.public_key), expect_accepted(server, keys_));
    return {client, server};
  }

  static asio::awaitable<void> expect_connected(Stream client, std::array<std::byte, 32> key) {
    Outcome<void> connected = co_await FrameStream::connect_sealed(client, key, kSoon);
    EXPECT_TRUE(connected.has_value()) << describe(connected.error());
  }
  static asio::awaitable<void> expect_accepted(Stream server, const link::ChannelKeys& keys) {
    Outcome<void> accepted = co_await FrameStream::accept_sealed(server, keys, kSoon);
    EXPECT_TRUE(accepted.has_value()) << describe(accepted.error());
  }

  static asio::awaitable<void> write(Stream to, wire::FrameHeader header, std::string json, ByteView payload,
                                     Outcome<void>& result, milliseconds within = kSoon) {
    result = co_await FrameStream::write_frame(to, header, std::move(json), payload, within);
  }
  static asio::awaitable<void> read(Stream from, Outcome<wire::Frame>& result, milliseconds within = kSoon) {
    result = co_await FrameStream::read_frame(from, within);
  }

  Outcome<wire::Frame> read_now(Stream from, milliseconds within = kSoon) {
    Outcome<wire::Frame> result = Error{Errc::internal, "not read"};
    run(read(std::move(from), result, within));
    return result;
  }
  Outcome<void> write_now(Stream to, std::string json, ByteView payload = {}, milliseconds within = kSoon) {
    Outcome<void> result = Error{Errc::internal, "not written"};
    run(write(std::move(to), header_of(wire::FrameType::submit), std::move(json), payload, result, within));
    return result;
  }

  static wire::FrameHeader header_of(wire::FrameType type) {
    wire::FrameHeader header;
    header.type = type;
    return header;
  }

  static Bytes pattern(std::size_t bytes, unsigned seed) {
    Bytes out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) & 0xFF);
    return out;
  }

  asio::io_context io_{1};
  link::ChannelKeys keys_ = link::make_channel_keys();
};

}  // namespace gearbox::net
