#include "cli/local_parts.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gearbox::cli {
namespace {

/// Bytes of one UINT8 tensor, from `at` on; all of it announced with the first.
wire::Frame frame_of(std::uint32_t part, const std::string& whole, std::size_t at, std::size_t count) {
  wire::Frame frame;
  frame.header.type = wire::FrameType::result_part;
  frame.header.part = part;
  frame.header.offset = at;
  if (at + count == whole.size()) frame.header.flags = wire::kLastPart;
  wire::PartMessage message;
  message.tensors.push_back({"text", wire::DType::uint8, {static_cast<std::int64_t>(whole.size())}, whole.size()});
  message.bytes = whole.size();
  if (at == 0) frame.json = wire::to_json(message);
  const ByteView bytes = view_of(whole).subspan(at, count);
  frame.payload.assign(bytes.begin(), bytes.end());
  return frame;
}

TEST(PartReader, PutsPartsTogetherFromTheirFrames) {
  PartReader reader;
  const auto first = reader.take(frame_of(0, "abc", 0, 3));
  ASSERT_TRUE(first);
  ASSERT_TRUE(first.value().has_value());
  EXPECT_EQ(first.value()->number, 0U);
  EXPECT_EQ(text_of(first.value()->payload), "abc");
  const auto half = reader.take(frame_of(1, "defgh", 0, 2));
  ASSERT_TRUE(half);
  EXPECT_FALSE(half.value().has_value());
  EXPECT_EQ(reader.count(), 1U);
  const auto second = reader.take(frame_of(1, "defgh", 2, 3));
  ASSERT_TRUE(second);
  ASSERT_TRUE(second.value().has_value());
  EXPECT_EQ(text_of(second.value()->payload), "defgh");
  EXPECT_EQ(second.value()->tensors.at(0).name, "text");
  EXPECT_EQ(reader.count(), 2U);
}

TEST(PartReader, TakesAPartWithoutBytes) {
  PartReader reader;
  const auto empty = reader.take(frame_of(0, "", 0, 0));
  ASSERT_TRUE(empty) << empty.error().detail;
  EXPECT_TRUE(empty.value().has_value());
}

TEST(PartReader, RefusesWhatDoesNotFollow) {
  EXPECT_EQ(PartReader().take(frame_of(1, "abc", 0, 3)).error().code, Errc::bad_frame) << "one is missing";
  EXPECT_EQ(PartReader().take(frame_of(0, "abc", 1, 2)).error().code, Errc::bad_frame) << "its front is missing";
  PartReader gap;
  ASSERT_TRUE(gap.take(frame_of(0, "abcdef", 0, 2)));
  EXPECT_EQ(gap.take(frame_of(0, "abcdef", 3, 3)).error().code, Errc::bad_frame);
}

TEST(PartReader, RefusesOtherBytesThanAnnounced) {
  wire::Frame longer = frame_of(0, "abc", 0, 3);
  longer.payload.push_back(std::byte{1});
  EXPECT_EQ(PartReader().take(longer).error().code, Errc::bad_frame);
  wire::Frame shorter = frame_of(0, "abc", 0, 3);
  shorter.payload.pop_back();
  EXPECT_EQ(PartReader().take(shorter).error().code, Errc::bad_frame) << "it says that it is the last";
  wire::Frame lying = frame_of(0, "abc", 0, 3);
  wire::PartMessage message;
  message.bytes = 3;  // of no tensor
  lying.json = wire::to_json(message);
  EXPECT_EQ(PartReader().take(lying).error().code, Errc::bad_frame);
  wire::Frame huge = frame_of(0, "abc", 0, 3);
  message.tensors.push_back({"x", wire::DType::uint8, {std::int64_t{1} << 40}, std::uint64_t{1} << 40});
  message.bytes = std::uint64_t{1} << 40;
  huge.json = wire::to_json(message);
  EXPECT_FALSE(PartReader().take(huge));
}

}  // namespace
}  // namespace gearbox::cli
