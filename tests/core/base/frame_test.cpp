#include "gearbox/wire/frame.hpp"

#include <gtest/gtest.h>

#include <random>

namespace gearbox::wire {
namespace {

FrameHeader some_header() {
  FrameHeader header;
  header.type = FrameType::upload_data;
  header.flags = kLastPart;
  header.priority = 7;
  header.json_bytes = 1234;
  header.payload_bytes = kMaxPayloadBytes;
  for (std::size_t i = 0; i < 16; ++i) header.request.bytes[i] = static_cast<std::byte>(0xF0 + i);
  header.attempt = 0x01020304;
  header.part = 0x11121314;
  header.remaining_ms = 0x21222324;
  header.tenant = 0x31323334;
  header.epoch = 0x41424344;
  header.offset = 0x5152535455565758ULL;
  return header;
}

TEST(FrameHeader, ComesBackWithEveryField) {
  const FrameHeader sent = some_header();
  const FrameHeader got = parse_header(encode(sent)).value();
  EXPECT_EQ(got.type, sent.type);
  EXPECT_EQ(got.flags, sent.flags);
  EXPECT_EQ(got.priority, sent.priority);
  EXPECT_EQ(got.json_bytes, sent.json_bytes);
  EXPECT_EQ(got.payload_bytes, sent.payload_bytes);
  EXPECT_EQ(got.request, sent.request);
  EXPECT_EQ(got.attempt, sent.attempt);
  EXPECT_EQ(got.part, sent.part);
  EXPECT_EQ(got.remaining_ms, sent.remaining_ms);
  EXPECT_EQ(got.tenant, sent.tenant);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.offset, sent.offset);
}

// Another version must find the fields where this one puts them.
TEST(FrameHeader, HasItsFieldsWhereTheProtocolSays) {
  const HeaderBytes bytes = encode(some_header());
  EXPECT_EQ(bytes[0], std::byte{22});
  EXPECT_EQ(bytes[4], std::byte{0xD2});
  EXPECT_EQ(bytes[12], std::byte{0xF0});
  EXPECT_EQ(bytes[28], std::byte{0x04});
  EXPECT_EQ(bytes[48], std::byte{0x58});
  EXPECT_EQ(bytes[55], std::byte{0x51});
  EXPECT_EQ(bytes[63], std::byte{0});
}

TEST(FrameHeader, RefusesAnyCut) {
  const HeaderBytes bytes = encode(some_header());
  for (std::size_t length = 0; length < kHeaderBytes; ++length) {
    EXPECT_EQ(parse_header(ByteView(bytes).first(length)).error().code, Errc::short_frame);
  }
}

TEST(FrameHeader, RefusesLengthsOverTheirLimits) {
  FrameHeader header = some_header();
  header.payload_bytes = kMaxPayloadBytes + 1;
  EXPECT_EQ(parse_header(encode(header)).error().code, Errc::frame_too_large);
  header.payload_bytes = 0xFFFFFFFF;
  EXPECT_EQ(parse_header(encode(header)).error().code, Errc::frame_too_large);
  header.payload_bytes = 0;
  header.json_bytes = kMaxJsonBytes + 1;
  EXPECT_EQ(parse_header(encode(header)).error().code, Errc::frame_too_large);
  header.json_bytes = kMaxJsonBytes;
  EXPECT_TRUE(parse_header(encode(header)).has_value());
}

TEST(FrameHeader, PassesAnUnknownTypeOn) {
  FrameHeader header = some_header();
  header.type = static_cast<FrameType>(250);
  EXPECT_EQ(static_cast<int>(parse_header(encode(header)).value().type), 250);
}

TEST(FrameHeader, NeverReadsALengthOverTheLimitOutOfNoise) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    HeaderBytes bytes;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xFF);
    const auto header = parse_header(bytes);
    if (!header) continue;
    EXPECT_LE(header.value().json_bytes, kMaxJsonBytes);
    EXPECT_LE(header.value().payload_bytes, kMaxPayloadBytes);
  }
}

}  // namespace
}  // namespace gearbox::wire
