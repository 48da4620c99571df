// Records in pieces against libsodium's own, bit for bit, and against containers that another implementation wrote.
#include "link/record_pieces.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "core/link/code_of.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/keys.hpp"
#include "link/bytes_cast.hpp"

namespace gearbox::link {
namespace {

using Stream = crypto_secretstream_xchacha20poly1305_state;

Bytes seal_in_pieces(Stream& stream, ByteView plain, ByteView additional, unsigned char tag, std::mt19937& random) {
  Bytes record(plain.size() + 17);
  RecordPieces pieces(stream, additional);
  record[0] = pieces.seal_head(tag);
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t bytes = std::min<std::size_t>(plain.size() - at, random() % 200);
    pieces.seal(plain.subspan(at, bytes), ByteSpan(record).subspan(1 + at, bytes));
    at += bytes;
  }
  const auto mac = pieces.mac();
  pieces.finish(mac);
  std::copy(mac.begin(), mac.end(), record.end() - 16);
  return record;
}

Outcome<Bytes> open_in_pieces(Stream& stream, ByteView record, ByteView additional, unsigned char& tag,
                              std::mt19937& random) {
  Bytes plain(record.size() - 17);
  RecordPieces pieces(stream, additional);
  pieces.open_head(record[0]);
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t bytes = std::min<std::size_t>(plain.size() - at, random() % 200);
    pieces.open(record.subspan(1 + at, bytes), ByteSpan(plain).subspan(at, bytes));
    at += bytes;
  }
  const auto mac = pieces.mac();
  if (!std::equal(mac.begin(), mac.end(), record.end() - 16)) return Error{Errc::decrypt_failed, "code"};
  pieces.finish(mac);
  tag = pieces.tag();
  return plain;
}

TEST(RecordPieces, AreThoseOfLibsodiumBitForBit) {
  crypto_ready();
  std::mt19937 random(7);
  std::array<std::byte, 32> key{};
  std::array<std::byte, 24> header{};
  fill_random(key);
  Stream whole;
  crypto_secretstream_xchacha20poly1305_init_push(&whole, raw(header), raw(key));
  Stream pieces = whole;
  Stream reading;
  crypto_secretstream_xchacha20poly1305_init_pull(&reading, raw(header), raw(key));
  constexpr std::array<unsigned char, 4> kTags{0, 1, 2, 3};  // message, push, rekey, final: each moves the stream on
  for (int round = 0; round < 400; ++round) {
    Bytes plain(random() % 1500);
    Bytes additional(random() % 80);
    fill_random(plain);
    fill_random(additional);
    const unsigned char tag = kTags[random() % kTags.size()];
    Bytes expected(plain.size() + 17);
    crypto_secretstream_xchacha20poly1305_push(&whole, raw(expected), nullptr, raw(plain), plain.size(),
                                               raw(additional), additional.size(), tag);
    ASSERT_EQ(seal_in_pieces(pieces, plain, additional, tag, random), expected) << "round " << round;
    unsigned char found = 99;
    const auto opened = open_in_pieces(reading, expected, additional, found, random);
    ASSERT_TRUE(opened.has_value()) << "round " << round;
    ASSERT_EQ(opened.value(), plain);
    ASSERT_EQ(found, tag);
  }
}

/// Reads a container of the cases by the rules that hold for our streams: whole records in order, an end mark, nothing
/// after.
Outcome<std::size_t> read_container(ByteView bytes, ByteView key) {
  std::mt19937 random(1);
  if (bytes.size() < 24) return Error{Errc::short_frame, {}};
  Stream stream;
  crypto_secretstream_xchacha20poly1305_init_pull(&stream, raw(bytes), raw(key));
  bytes = bytes.subspan(24);
  std::size_t records = 0;
  unsigned char tag = 0;
  while (!bytes.empty()) {
    if (tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL) return Error{Errc::bad_frame, "data after the end"};
    if (bytes.size() < 4) return Error{Errc::closed, "cut"};
    const auto length = load_le<std::uint32_t>(bytes.data());
    if (length < 17 || bytes.size() - 4 < length) return Error{Errc::closed, "cut"};
    BOOST_OUTCOME_TRY(open_in_pieces(stream, bytes.subspan(4, length), {}, tag, random));
    bytes = bytes.subspan(4 + length);
    ++records;
  }
  if (tag != crypto_secretstream_xchacha20poly1305_TAG_FINAL) return Error{Errc::closed, "no end mark"};
  return records;
}

TEST(RecordPieces, ReadContainersOfAnotherImplementationByTheSameRules) {
  const std::string folder = GEARBOX_CASES;
  const auto load = [&](const std::string& name) {
    std::ifstream file(folder + "/c49_" + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const ByteView bytes = view_of(text);
    return Bytes(bytes.begin(), bytes.end());
  };
  const Bytes key = load("key.bin");
  if (key.size() != 32) {
    std::cout << "NOT RUN: no cases at " << folder << '\n';
    GTEST_SKIP();
  }
  const auto good = read_container(load("good.ss"), key);
  ASSERT_TRUE(good.has_value()) << good.error().detail;
  EXPECT_EQ(good.value(), 4U);
  EXPECT_EQ(read_container(load("no_final.ss"), key).error().detail, "no end mark");
  EXPECT_EQ(read_container(load("header_only.ss"), key).error().detail, "no end mark");
  EXPECT_EQ(code_of(read_container(load("cut_in_record.ss"), key)), Errc::closed);
  EXPECT_EQ(code_of(read_container(load("swapped_1_2.ss"), key)), Errc::decrypt_failed);
  EXPECT_EQ(code_of(read_container(load("repeated_1.ss"), key)), Errc::decrypt_failed);
  EXPECT_EQ(read_container(load("data_after_final.ss"), key).error().detail, "data after the end");
}

}  // namespace
}  // namespace gearbox::link
