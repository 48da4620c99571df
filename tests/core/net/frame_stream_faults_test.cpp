// Peers that are slow, cut off, strangers or liars.
#include <fcntl.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "core/net/stream_fixture.hpp"
#include "gearbox/link/secure_channel.hpp"

namespace gearbox::net {
namespace {

class FrameStreamFaults : public StreamFixture {
 protected:
  static void send_raw(int descriptor, ByteView bytes) {
    ASSERT_EQ(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  /// Lets a bare peer say something to a stream of ours on which `start` runs.
  template <class Start>
  Outcome<void> after_saying(ByteView says, bool then_shut, Start start) {
    auto [peer, ours] = tcp_pair();
    Stream stream = adopt(ours);
    if (!says.empty()) send_raw(peer, says);
    if (then_shut) ::shutdown(peer, SHUT_WR);
    Outcome<void> result = done();
    run(start(stream, result));
    ::close(peer);
    return result;
  }
  Outcome<void> accept_from(ByteView says, bool then_shut) {
    return after_saying(says, then_shut, [this](Stream server, Outcome<void>& result) {
      return accept(std::move(server), keys_, result);
    });
  }
  static asio::awaitable<void> accept(Stream server, const link::ChannelKeys& keys, Outcome<void>& result) {
    result = co_await FrameStream::accept_sealed(server, keys, kSoon);
  }
  static asio::awaitable<void> connect(Stream client, std::array<std::byte, 32> key, Outcome<void>& result,
                                       milliseconds within = kSoon) {
    result = co_await FrameStream::connect_sealed(client, key, within);
  }
};

TEST_F(FrameStreamFaults, StrangersAreRefusedAtTheirFirstBytesWithoutWaitingForMore) {
  for (const std::string_view says : {std::string_view("GET / HTTP/1.1\r\n"), std::string_view("\x16\x03\x01", 3),
                                      std::string_view("\0\0\0", 3), std::string_view("GBX2")}) {
    const Instant begin = Clock::now();
    const Outcome<void> result = accept_from(view_of(says), false);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(code_of(result), Errc::not_gearbox) << describe(result.error());
    EXPECT_LT(Clock::now() - begin, kSoon);
  }
}

TEST_F(FrameStreamFaults, TheCasesOfOtherProtocolsAreRefused) {
  const std::string folder = GEARBOX_CASES;
  if (!std::ifstream(folder + "/README.md")) {
    std::cout << "NOT RUN: no cases at " << folder << '\n';
    GTEST_SKIP();
  }
  for (const char* name : {"http_on_our_port", "tls_hello_on_our_port", "len_u32le_7fffffff", "len_u64le_1TiB",
                           "three_of_four_length_bytes"}) {
    std::ifstream file(folder + "/c74_" + name + ".bin", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(bytes.empty()) << name;
    EXPECT_EQ(code_of(accept_from(view_of(bytes), false)), Errc::not_gearbox) << name;
  }
}

TEST_F(FrameStreamFaults, AHelloCutAnywhereEndsTheHandshake) {
  const auto hello = link::ClientHandshake(keys_.public_key).hello();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, std::size_t{4}, hello.size() - 1, hello.size()}) {
    const Outcome<void> result = accept_from(ByteView(hello).first(bytes), true);
    ASSERT_FALSE(result.has_value());
    EXPECT_TRUE(result.error().code == Errc::closed || result.error().code == Errc::io_error) << bytes;
  }
}

TEST_F(FrameStreamFaults, AClientSeesThatTheServerSpeaksAnotherProtocol) {
  for (const std::string_view says : {std::string_view("HTTP/1.1 400 Bad Request\r\n"),
                                      std::string_view("\x15\x03\x01\0\2", 5), std::string_view("220 mail\r\n")}) {
    const Outcome<void> result = after_saying(view_of(says), false, [this](Stream client, Outcome<void>& outcome) {
      return connect(std::move(client), keys_.public_key, outcome);
    });
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(code_of(result), Errc::not_gearbox) << describe(result.error());
  }
}

TEST_F(FrameStreamFaults, AWrongServerKeyIsToldByTheClient) {
  auto [a, b] = tcp_pair();
  Stream client = adopt(a);
  Stream server = adopt(b);
  Outcome<void> connected = done();
  Outcome<void> accepted = done();
  const auto connect_then_close = [](Stream stream, std::array<std::byte, 32> key,
                                     Outcome<void>& result) -> asio::awaitable<void> {
    result = co_await FrameStream::connect_sealed(stream, key, kSoon);
    stream->close();
  };
  run(connect_then_close(client, link::make_channel_keys().public_key, connected), accept(server, keys_, accepted));
  EXPECT_EQ(code_of(connected), Errc::wrong_server_key);
  EXPECT_FALSE(accepted.has_value());
}

TEST_F(FrameStreamFaults, AVersionThatTheServerDoesNotSpeakIsToldToTheClient) {
  auto [peer, ours] = tcp_pair();
  auto hello = link::ClientHandshake(keys_.public_key).hello();
  store_le<std::uint16_t>(&hello[4], 7);
  store_le<std::uint16_t>(&hello[6], 8);
  send_raw(peer, hello);
  Outcome<void> accepted = done();
  run(accept(adopt(ours), keys_, accepted));
  EXPECT_EQ(code_of(accepted), Errc::unsupported_version);
  std::array<std::byte, link::kReplyBytes> reply{};
  ASSERT_EQ(::recv(peer, reply.data(), reply.size(), MSG_WAITALL), static_cast<ssize_t>(reply.size()));
  EXPECT_EQ(code_of(link::ClientHandshake::look_at(reply)), Errc::unsupported_version);
  ::close(peer);
}

TEST_F(FrameStreamFaults, ASilentServerEndsTheHandshakeAtTheDeadline) {
  auto [peer, ours] = tcp_pair();
  Outcome<void> result = done();
  run(connect(adopt(ours), keys_.public_key, result, kShort));
  EXPECT_EQ(code_of(result), Errc::timeout);
  ::close(peer);
}

/// A sealed conversation whose one side is played by hand, byte by byte.
class HandPlayed : public FrameStreamFaults {
 protected:
  void SetUp() override {
    auto [peer, ours] = tcp_pair();
    peer_ = peer;
    stream_ = adopt(ours);
    run(play_handshake(), expect_accepted(stream_, keys_));
  }
  void TearDown() override {
    if (peer_ >= 0) ::close(peer_);
  }
  asio::awaitable<void> play_handshake() {
    link::ClientHandshake handshake(keys_.public_key);
    send_raw(peer_, handshake.hello());
    std::array<std::byte, link::kReplyBytes> reply{};
    std::size_t got = 0;
    while (got < reply.size()) {
      const ssize_t n = ::recv(peer_, reply.data() + got, reply.size() - got, MSG_DONTWAIT);
      if (n > 0) got += static_cast<std::size_t>(n);
      if (n <= 0) co_await pause_until(after(Clock::now(), milliseconds(1)));  // lets the server's coroutine run
    }
    auto agreed = handshake.read_reply(reply);
    EXPECT_TRUE(agreed.has_value());
    send_raw(peer_, agreed.value().finish);
    channel_.emplace(std::move(agreed.value().channel));
  }
  /// A frame as it stands on the wire.
  Bytes frame(std::string_view json) {
    wire::FrameHeader header = header_of(wire::FrameType::submit);
    header.json_bytes = static_cast<std::uint32_t>(json.size());
    const auto plain = wire::encode(header);
    Bytes out(81 + json.size() + link::kSealBytes);
    channel_->seal(plain, {}, {}, ByteSpan(out).first(81));
    channel_->seal(view_of(json), {}, plain, ByteSpan(out).subspan(81));
    return out;
  }

  int peer_ = -1;
  Stream stream_;
  std::optional<link::SecureChannel> channel_;
};

TEST_F(HandPlayed, APeerThatSendsOneByteAtATimeIsUnderstood) {
  const Bytes bytes = frame(R"({"task":"slow"})");
  Outcome<wire::Frame> result = Error{};
  const auto trickle = [](int peer, Bytes all) -> asio::awaitable<void> {
    for (const std::byte b : all) {
      send_raw(peer, std::span(&b, 1));
      co_await pause_until(Clock::now());
    }
  };
  run(trickle(peer_, bytes), read(stream_, result));
  ASSERT_TRUE(result.has_value()) << describe(result.error());
  EXPECT_EQ(result.value().json, R"({"task":"slow"})");
}

TEST_F(HandPlayed, ATimeoutInsideAHeaderLosesNoByte) {
  const Bytes bytes = frame("x");
  send_raw(peer_, ByteView(bytes).first(40));
  EXPECT_EQ(code_of(read_now(stream_, kShort)), Errc::timeout);
  send_raw(peer_, ByteView(bytes).subspan(40));
  EXPECT_EQ(read_now(stream_).value().json, "x");
}

TEST_F(HandPlayed, ATimeoutInsideABodyBreaksTheStreamForGood) {
  const Bytes bytes = frame("0123456789");
  send_raw(peer_, ByteView(bytes).first(90));
  EXPECT_EQ(code_of(read_now(stream_, kShort)), Errc::timeout);
  send_raw(peer_, ByteView(bytes).subspan(90));
  EXPECT_EQ(code_of(read_now(stream_)), Errc::io_error) << "not timeout: that would mean 'ask again'";
  EXPECT_TRUE(write_now(stream_, "why").has_value()) << "the reason can still be said";
}

TEST_F(HandPlayed, ACutInTheMiddleOfAFrameIsNoOrderlyEnd) {
  const Bytes bytes = frame("payload");
  for (const std::size_t cut : {std::size_t{1}, std::size_t{80}, std::size_t{81}, std::size_t{82}, bytes.size() - 1}) {
    TearDown();
    SetUp();
    const Bytes fresh = frame("payload");
    send_raw(peer_, ByteView(fresh).first(cut));
    ::shutdown(peer_, SHUT_WR);
    EXPECT_EQ(code_of(read_now(stream_)), Errc::io_error) << cut;
  }
}

TEST_F(HandPlayed, AnEndWithoutItsMarkIsACut) {
  ::shutdown(peer_, SHUT_WR);
  EXPECT_EQ(code_of(read_now(stream_)), Errc::io_error);
}

TEST_F(HandPlayed, FlippedRepeatedAndSwappedBytesEndTheStream) {
  const std::size_t size = frame("payload").size();
  for (const std::size_t flip :
       {std::size_t{0}, std::size_t{40}, std::size_t{80}, std::size_t{81}, std::size_t{84}, size - 1}) {
    TearDown();
    SetUp();
    Bytes bytes = frame("payload");
    bytes[flip] ^= std::byte{4};
    send_raw(peer_, bytes);
    EXPECT_EQ(code_of(read_now(stream_)), Errc::decrypt_failed) << flip;
    EXPECT_EQ(code_of(read_now(stream_)), Errc::decrypt_failed) << "it stays so";
  }
  TearDown();
  SetUp();
  const Bytes once = frame("once");
  send_raw(peer_, once);
  send_raw(peer_, once);
  EXPECT_TRUE(read_now(stream_).has_value());
  EXPECT_EQ(code_of(read_now(stream_)), Errc::decrypt_failed);
  TearDown();
  SetUp();
  const Bytes first = frame("first");
  const Bytes second = frame("second");
  send_raw(peer_, second);
  send_raw(peer_, first);
  EXPECT_EQ(code_of(read_now(stream_)), Errc::decrypt_failed);
}

TEST_F(HandPlayed, AnAbsurdLengthIsRefusedBeforeMemoryIsTaken) {
  wire::FrameHeader header = header_of(wire::FrameType::upload_data);
  header.payload_bytes = 0xFFFFFFFF;
  Bytes bytes(81);
  channel_->seal(wire::encode(header), {}, {}, bytes);
  send_raw(peer_, bytes);
  EXPECT_EQ(code_of(read_now(stream_)), Errc::frame_too_large);
  EXPECT_TRUE(write_now(stream_, "why").has_value());
}

TEST_F(HandPlayed, SeveralFramesInOnePieceAreAllDelivered) {
  Bytes all;
  for (int i = 0; i < 100; ++i) {
    const Bytes one = frame("frame " + std::to_string(i));
    all.insert(all.end(), one.begin(), one.end());
  }
  send_raw(peer_, all);
  for (int i = 0; i < 100; ++i) {
    const Outcome<wire::Frame> got = read_now(stream_);
    ASSERT_TRUE(got.has_value()) << i << describe(got.error());
    EXPECT_EQ(got.value().json, "frame " + std::to_string(i));
  }
}

TEST_F(HandPlayed, WhatThePeerSaidBeforeItWentCanBeReadAfterAWriteFailed) {
  send_raw(peer_, frame("too large"));
  linger hard{1, 0};
  ::setsockopt(peer_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  ::close(peer_);  // a reset
  peer_ = -1;
  Outcome<void> written = write_now(stream_, "more");
  if (written) written = write_now(stream_, "and more");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(read_now(stream_).value().json, "too large");
  EXPECT_FALSE(read_now(stream_).has_value());
}

TEST_F(FrameStreamFaults, GarbageOnAPlainSocketIsRefused) {
  auto [peer, ours] = unix_pair();
  Stream stream = adopt(ours);
  send_raw(peer, Bytes(64, std::byte{0xFF}));
  EXPECT_EQ(code_of(read_now(stream)), Errc::frame_too_large);
  ::close(peer);
}

TEST_F(FrameStreamFaults, WhatIsNoStreamSocketIsNotAdoptedAndIsClosed) {
  const int datagram = ::socket(AF_INET, SOCK_DGRAM, 0);
  EXPECT_FALSE(FrameStream::adopt(io_.get_executor(), datagram, "x").has_value());
  EXPECT_EQ(::fcntl(datagram, F_GETFD), -1) << "the descriptor leaked";
  EXPECT_FALSE(FrameStream::adopt(io_.get_executor(), -1, "x").has_value());
}

}  // namespace
}  // namespace gearbox::net
