#include "gearbox/shm/call_block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <random>

namespace gearbox::shm {

namespace {
PlacedTensor picture() {
  PlacedTensor tensor;
  tensor.spec = {"image", wire::DType::fp32, {2, 3, 4}, 96};
  tensor.item = 5;
  tensor.arena = ArenaId{3};
  tensor.offset = 4096;
  return tensor;
}

Outcome<std::uint64_t> write_block(ByteSpan into, std::span<const PlacedTensor> tensors, std::uint32_t error,
                                   std::string_view text) {
  BlockWriter writer(into);
  for (const PlacedTensor& tensor : tensors) {
    BOOST_OUTCOME_TRY(writer.add(tensor.spec, tensor.item, tensor.arena, tensor.offset));
  }
  return writer.finish(error, text);
}

Bytes written(std::span<const PlacedTensor> tensors, std::string_view text) {
  Bytes bytes(kAnswerBlockBytes);
  auto length = write_block(bytes, tensors, 7, text);
  EXPECT_TRUE(length);
  bytes.resize(length ? length.value() : 0);
  return bytes;
}

Bytes with_entry(const std::function<void(TensorEntry&)>& change) {
  const PlacedTensor tensor = picture();
  Bytes bytes = written({&tensor, 1}, "");
  TensorEntry entry;
  std::memcpy(&entry, bytes.data() + sizeof(BlockHeader), sizeof entry);
  change(entry);
  std::memcpy(bytes.data() + sizeof(BlockHeader), &entry, sizeof entry);
  return bytes;
}
}  // namespace

TEST(CallBlock, CreditIsTheNodesWordAndDisturbsNothingElse) {
  const PlacedTensor tensor = picture();
  alignas(64) std::array<std::byte, 1024> room{};
  ASSERT_TRUE(write_block(room, {&tensor, 1}, 0, ""));
  EXPECT_EQ(credit_of(room), 0U);
  give_credit(room, 7);
  mark_cancelled(room);
  give_credit(room, 0xFFFFFFFF);
  EXPECT_EQ(credit_of(room), 0xFFFFFFFFU);
  EXPECT_TRUE(is_cancelled(room));
  EXPECT_TRUE(read_block(room));
  EXPECT_EQ(credit_of(ByteView(room).first(8)), 0U) << "a block that is none";
}

TEST(CallBlock, RoomsOfPartsLieBesideEachOtherBehindTheLastBlock) {
  const PartRooms rooms = part_rooms(3, 1000);
  EXPECT_EQ(rooms.offset_of(0), kAnswerBlockBytes);
  EXPECT_EQ(rooms.offset_of(1), kAnswerBlockBytes + grant_for(1000));
  EXPECT_EQ(rooms.offset_of(2) + grant_for(1000), rooms.grant_bytes());
  EXPECT_EQ(rooms.offset_of(3), rooms.offset_of(0));
  EXPECT_EQ(rooms.offset_of(0xFFFFFFFF), rooms.offset_of(0xFFFFFFFF % 3));
  EXPECT_EQ(rooms.offset_of(1) % kTensorAlign, 0U);
}

TEST(CallBlock, ComesBackAsItWasWritten) {
  const PlacedTensor tensor = picture();
  auto block = read_block(written({&tensor, 1}, "a line"));
  ASSERT_TRUE(block);
  ASSERT_EQ(block.value().tensors.size(), 1U);
  const PlacedTensor& read = block.value().tensors[0];
  EXPECT_EQ(read.spec.name, "image");
  EXPECT_EQ(read.spec.dtype, wire::DType::fp32);
  EXPECT_EQ(read.spec.shape, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(read.spec.bytes, 96U);
  EXPECT_EQ(read.item, 5U);
  EXPECT_EQ(read.arena, ArenaId{3});
  EXPECT_EQ(read.offset, 4096U);
  EXPECT_EQ(block.value().error, 7U);
  EXPECT_EQ(block.value().text, "a line");
}

TEST(CallBlock, RefusesEveryFieldThatDoesNotFit) {
  const std::vector<std::pair<std::string, std::function<void(TensorEntry&)>>> lies = {
      {"dtype 0", [](TensorEntry& e) { e.dtype = 0; }},
      {"dtype 99", [](TensorEntry& e) { e.dtype = 99; }},
      {"rank 9", [](TensorEntry& e) { e.rank = 9; }},
      {"rank max", [](TensorEntry& e) { e.rank = 0xFFFFFFFF; }},
      {"negative", [](TensorEntry& e) { e.shape[1] = -3; }},
      {"overflowing product", [](TensorEntry& e) { e.shape[0] = e.shape[1] = e.shape[2] = std::int64_t{1} << 40; }},
      {"more bytes", [](TensorEntry& e) { e.bytes = 97; }},
      {"huge bytes", [](TensorEntry& e) { e.bytes = ~std::uint64_t{0}; }},
      {"no name", [](TensorEntry& e) { std::memset(e.name, 0, sizeof e.name); }},
      {"name with a slash", [](TensorEntry& e) { std::memcpy(e.name, "../x", 4); }},
      {"name that does not end", [](TensorEntry& e) { std::memset(e.name, 0x80, sizeof e.name); }}};
  for (const auto& [what, change] : lies) {
    auto block = read_block(with_entry(change));
    ASSERT_FALSE(block) << what;
    EXPECT_EQ(block.error().code, Errc::bad_frame) << what;
  }
}

TEST(CallBlock, RefusesCountsBeyondItsLength) {
  const PlacedTensor tensor = picture();
  const Bytes good = written({&tensor, 1}, "text");
  for (std::size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(read_block(ByteView(good).first(cut))) << cut;
  for (const std::uint32_t count : {2U, 65U, 513U, 0xFFFFFFFFU}) {
    Bytes bytes = good;
    std::memcpy(bytes.data(), &count, sizeof count);
    EXPECT_FALSE(read_block(bytes)) << count;
  }
  for (const std::uint32_t length : {5U, 1001U, 0xFFFFFFFFU}) {
    Bytes bytes = good;
    std::memcpy(bytes.data() + offsetof(BlockHeader, text_bytes), &length, sizeof length);
    EXPECT_FALSE(read_block(bytes)) << length;
  }
}

TEST(CallBlock, RandomBytesAreReadOrRefusedButNothingElse) {
  std::mt19937_64 random(3);
  const PlacedTensor tensor = picture();
  const Bytes good = written({&tensor, 1}, "text");
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = good;
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    auto block = read_block(bytes);
    if (!block) continue;
    for (const PlacedTensor& read : block.value().tensors) EXPECT_TRUE(wire::check(read.spec));
    EXPECT_LE(block.value().text.size(), kMaxTextBytes);
  }
}

TEST(CallBlock, RefusesMoreTensorsThanFit) {
  const std::vector<PlacedTensor> many(wire::kMaxTensors + 1, picture());
  Bytes bytes(kAnswerBlockBytes);
  EXPECT_EQ(write_block(bytes, many, 0, {}).error().code, Errc::bad_input);
  EXPECT_TRUE(write_block(bytes, std::span(many).first(wire::kMaxTensors), 0, {}));
  EXPECT_EQ(write_block(ByteSpan(bytes).first(100), std::span(many).first(1), 0, {}).error().code, Errc::no_space);
}

TEST(CallBlock, TextIsOnePrintableLine) {
  const std::string wild = "two\nlines \xFF\x1B[31m" + std::string(3000, 'x');
  auto block = read_block(written({}, wild));
  ASSERT_TRUE(block);
  EXPECT_LE(block.value().text.size(), kMaxTextBytes);
  EXPECT_TRUE(block.value().text.starts_with("two\\x0alines \\xff\\x1b[31m")) << block.value().text;
  EXPECT_EQ(one_line("äöü ok"), "äöü ok");
}

TEST(CallBlock, RangesNeverWrap) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_TRUE(check_range(0, 100, 100));
  EXPECT_TRUE(check_range(100, 0, 100));
  EXPECT_FALSE(check_range(1, 100, 100));
  EXPECT_FALSE(check_range(kMax, 2, 100));
  EXPECT_FALSE(check_range(2, kMax, 100));
  EXPECT_FALSE(check_range(kMax, kMax, kMax));
}

}  // namespace gearbox::shm
