#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "core/link/channel_pair.hpp"
#include "core/link/code_of.hpp"
#include "gearbox/link/secure_channel.hpp"

namespace gearbox::link {
namespace {

TEST(Handshake, BothSidesAgreeAndRecordsPassBothWays) {
  const ChannelKeys keys = make_channel_keys();
  ChannelPair pair = connect(keys);
  EXPECT_EQ(Bytes(pair.client.h().begin(), pair.client.h().end()),
            Bytes(pair.server.h().begin(), pair.server.h().end()));
  EXPECT_EQ(pass(pair.client, pair.server, "up"), "up");
  EXPECT_EQ(pass(pair.server, pair.client, "down"), "down");
  EXPECT_EQ(pass(pair.client, pair.server, ""), "");
}

TEST(Handshake, EachChannelHasItsOwnH) {
  const ChannelKeys keys = make_channel_keys();
  const ChannelPair one = connect(keys);
  const ChannelPair two = connect(keys);
  EXPECT_NE(Bytes(one.client.h().begin(), one.client.h().end()), Bytes(two.client.h().begin(), two.client.h().end()));
}

TEST(Handshake, AServerWithoutThePinnedKeyIsRefused) {
  const ChannelKeys keys = make_channel_keys();
  const ChannelKeys others = make_channel_keys();
  ClientHandshake client(keys.public_key);
  ServerHandshake impostor(others);
  const auto reply = impostor.read_hello(client.hello());
  ASSERT_TRUE(reply.has_value());
  const auto done = client.read_reply(reply.value());
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(code_of(done), Errc::wrong_server_key);
}

TEST(Handshake, NoByteOfHelloCanBeChangedUnnoticed) {
  const ChannelKeys keys = make_channel_keys();
  for (std::size_t i = 0; i < kHelloBytes; ++i) {
    for (const int bit : {0, 6}) {  // bit 7 of an X25519 key's last byte is ignored by the curve, not by h
      ClientHandshake client(keys.public_key);
      ServerHandshake server(keys);
      auto hello = client.hello();
      hello[i] ^= static_cast<std::byte>(1 << bit);
      const auto reply = server.read_hello(hello);
      if (!reply) {
        EXPECT_TRUE(reply.error().code == Errc::not_gearbox || reply.error().code == Errc::unsupported_version) << i;
        continue;
      }
      const auto done = client.read_reply(reply.value());
      ASSERT_FALSE(done.has_value()) << "byte " << i << " of hello was changed";
      EXPECT_EQ(code_of(done), Errc::wrong_server_key);
    }
  }
}

TEST(Handshake, NoByteOfReplyOrFinishCanBeChangedUnnoticed) {
  const ChannelKeys keys = make_channel_keys();
  for (std::size_t i = 0; i < kReplyBytes; ++i) {
    ClientHandshake client(keys.public_key);
    ServerHandshake server(keys);
    auto reply = server.read_hello(client.hello()).value();
    reply[i] ^= std::byte{0x80};
    ASSERT_FALSE(client.read_reply(reply).has_value()) << "byte " << i << " of reply was changed";
  }
  for (std::size_t i = 0; i < kFinishBytes; ++i) {
    ClientHandshake client(keys.public_key);
    ServerHandshake server(keys);
    auto done = client.read_reply(server.read_hello(client.hello()).value());
    ASSERT_TRUE(done.has_value());
    auto finish = done.value().finish;
    finish[i] ^= std::byte{0x01};
    const auto channel = server.read_finish(finish);
    ASSERT_FALSE(channel.has_value()) << "byte " << i << " of finish was changed";
    EXPECT_EQ(code_of(channel), Errc::decrypt_failed);
  }
}

TEST(Handshake, AVersionWrittenInFromOutsideShows) {
  const ChannelKeys keys = make_channel_keys();
  ClientHandshake client(keys.public_key);
  ServerHandshake server(keys);
  auto hello = client.hello();
  store_le<std::uint16_t>(&hello[6], 9);  // "I speak up to 9": the server still answers 1, but h tells the tale
  const auto reply = server.read_hello(hello);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(code_of(client.read_reply(reply.value())), Errc::wrong_server_key);
}

TEST(Handshake, VersionsThatDoNotMeetAreSaidOnBothSides) {
  const ChannelKeys keys = make_channel_keys();
  ClientHandshake client(keys.public_key);
  for (const auto& [lowest, highest] : {std::pair<std::uint16_t, std::uint16_t>{2, 3}, {0, 0}, {3, 1}}) {
    ServerHandshake server(keys);
    auto hello = client.hello();
    store_le(&hello[4], lowest);
    store_le(&hello[6], highest);
    EXPECT_EQ(code_of(server.read_hello(hello)), Errc::unsupported_version) << lowest << ".." << highest;
  }
  const auto refused = client.read_reply(ServerHandshake::refusal());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(code_of(refused), Errc::unsupported_version);
  EXPECT_NE(refused.error().detail.find("1 to 1"), std::string::npos) << refused.error().detail;
}

TEST(Handshake, RecordedBytesAreWorthNothingLater) {
  const ChannelKeys keys = make_channel_keys();
  ClientHandshake client(keys.public_key);
  ServerHandshake server(keys);
  const auto hello = client.hello();
  const auto reply = server.read_hello(hello).value();
  const auto finish = client.read_reply(reply).value().finish;
  ASSERT_TRUE(server.read_finish(finish).has_value());

  ServerHandshake later_server(keys);  // the client's bytes again
  ASSERT_TRUE(later_server.read_hello(hello).has_value());
  EXPECT_EQ(code_of(later_server.read_finish(finish)), Errc::decrypt_failed);
  ClientHandshake later_client(keys.public_key);  // the server's bytes again
  EXPECT_EQ(code_of(later_client.read_reply(reply)), Errc::wrong_server_key);
}

TEST(Handshake, AKeyOfLowOrderIsRefused) {
  const ChannelKeys keys = make_channel_keys();
  ClientHandshake client(keys.public_key);
  auto hello = client.hello();
  for (std::size_t i = 8; i < kHelloBytes; ++i) hello[i] = std::byte{0};
  ServerHandshake server(keys);
  EXPECT_FALSE(server.read_hello(hello).has_value());
  auto reply = ServerHandshake(keys).read_hello(client.hello()).value();
  for (std::size_t i = 2; i < 34; ++i) reply[i] = std::byte{0};
  EXPECT_FALSE(client.read_reply(reply).has_value());
}

TEST(Handshake, StrangersAreNamed) {
  const auto said = [](std::string_view bytes) { return ServerHandshake::look_at(view_of(bytes)); };
  EXPECT_NE(said("GET / HTTP/1.1\r\n").error().detail.find("HTTP"), std::string::npos);
  EXPECT_NE(said(std::string_view("\x16\x03\x01\x02\x00", 5)).error().detail.find("TLS"), std::string::npos);
  EXPECT_NE(said("SSH-2.0-x").error().detail.find("SSH"), std::string::npos);
  EXPECT_EQ(code_of(said("x")), Errc::not_gearbox) << "the first wrong byte is enough";
  EXPECT_TRUE(said("GB").has_value());
  EXPECT_TRUE(said("").has_value());
  const auto server_said = [](std::string_view bytes) { return ClientHandshake::look_at(view_of(bytes)); };
  EXPECT_NE(server_said("HTTP/1.1 400").error().detail.find("HTTP"), std::string::npos);
  EXPECT_NE(server_said(std::string_view("\x15\x03\x01\x00", 4)).error().detail.find("TLS"), std::string::npos);
  EXPECT_EQ(code_of(server_said("220 smtp")), Errc::not_gearbox);
}

TEST(Handshake, TheCasesOfOtherProtocolsAreRefused) {
  const std::string folder = GEARBOX_CASES;
  if (!std::ifstream(folder + "/README.md")) {
    std::cout << "NOT RUN: no cases at " << folder << '\n';
    GTEST_SKIP();
  }
  for (const char* name :
       {"http_on_our_port", "tls_hello_on_our_port", "len_u32le_0", "len_u32le_1", "len_u32le_7fffffff",
        "len_u32le_80000000", "len_u32le_ffffffff", "len_u64le_1TiB", "three_of_four_length_bytes"}) {
    std::ifstream file(folder + "/c74_" + name + ".bin", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(bytes.empty()) << name;
    const auto server = ServerHandshake::look_at(view_of(bytes));
    ASSERT_FALSE(server.has_value()) << name;
    EXPECT_EQ(code_of(server), Errc::not_gearbox) << name;
  }
}

}  // namespace
}  // namespace gearbox::link
