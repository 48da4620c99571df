// channel_pair.hpp: two ends of one established channel, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "gearbox/link/secure_channel.hpp"

namespace gearbox::link {

struct ChannelPair {
  SecureChannel client;
  SecureChannel server;
};

inline ChannelPair connect(const ChannelKeys& keys) {
  ClientHandshake client(keys.public_key);
  ServerHandshake server(keys);
  auto reply = server.read_hello(client.hello());
  auto done = client.read_reply(reply.value());
  auto channel = server.read_finish(done.value().finish);
  return {std::move(done.value().channel), std::move(channel).value()};
}

inline Bytes sealed(SecureChannel& from, std::string_view text, std::string_view additional = {}, bool last = false) {
  Bytes record(text.size() + kSealBytes);
  from.seal(view_of(text), {}, view_of(additional), record, last);
  return record;
}

inline Outcome<std::string> opened(SecureChannel& to, ByteView record, std::string_view additional = {}) {
  std::string text(record.size() < kSealBytes ? 0 : record.size() - kSealBytes, '\0');
  BOOST_OUTCOME_TRY(to.open(record, view_of(additional), std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

inline std::string pass(SecureChannel& from, SecureChannel& to, std::string_view text) {
  auto arrived = opened(to, sealed(from, text));
  EXPECT_TRUE(arrived.has_value());
  return arrived ? arrived.value() : "refused";
}

}  // namespace gearbox::link
