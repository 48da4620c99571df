// Parts of a streamed answer as a node may send them: whole, in order, each once, within bounds.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "node_connection.hpp"

namespace gearbox::client {
namespace {

class NodeParts : public ::testing::Test {
 protected:
  static wire::Frame frame(std::uint32_t number, std::size_t bytes, std::size_t from, std::size_t to) {
    wire::PartMessage message;
    message.tensors = {{"text", wire::DType::uint8, {static_cast<std::int64_t>(bytes)}, bytes}};
    message.bytes = bytes;
    wire::Frame made;
    made.header.type = wire::FrameType::result_part;
    made.header.part = number;
    made.header.offset = from;
    if (to == bytes) made.header.flags = wire::kLastPart;
    if (from == 0) made.json = wire::to_json(message);
    made.payload.assign(to - from, static_cast<std::byte>(number));
    return made;
  }
  static wire::Frame frame(std::uint32_t number) { return frame(number, 10, 0, 10); }
  Errc refused(const wire::Frame& bad) {
    const Outcome<void> taken = take_part(inbox_, bad);
    return taken ? Errc{} : taken.error().code;
  }

  boost::asio::io_context io_;
  Inbox inbox_{io_.get_executor()};
};

TEST_F(NodeParts, AreTakenInOrder) {
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(take_part(inbox_, frame(i)));
  ASSERT_EQ(inbox_.parts.size(), 3U);
  EXPECT_EQ(inbox_.parts[2].number, 2U);
  EXPECT_EQ(inbox_.parts[2].payload, Bytes(10, std::byte{2}));
}

TEST_F(NodeParts, OfAnEarlierConnectionAreNotTakenTwice) {
  inbox_.next_part = 5;
  ASSERT_TRUE(take_part(inbox_, frame(4)));
  EXPECT_TRUE(inbox_.parts.empty());
  ASSERT_TRUE(take_part(inbox_, frame(5)));
  EXPECT_EQ(inbox_.parts.size(), 1U);
}

TEST_F(NodeParts, ComeInSeveralFrames) {
  ASSERT_TRUE(take_part(inbox_, frame(0, 100, 0, 60)));
  EXPECT_TRUE(inbox_.parts.empty());
  ASSERT_TRUE(take_part(inbox_, frame(0, 100, 60, 100)));
  ASSERT_EQ(inbox_.parts.size(), 1U);
  EXPECT_EQ(inbox_.parts[0].payload.size(), 100U);
}

TEST_F(NodeParts, MayHoldNothing) {
  ASSERT_TRUE(take_part(inbox_, frame(0, 0, 0, 0)));
  EXPECT_EQ(inbox_.parts.size(), 1U);
}

TEST_F(NodeParts, OutOfOrderAreRefused) {
  EXPECT_EQ(refused(frame(1)), Errc::bad_frame);
  ASSERT_TRUE(take_part(inbox_, frame(0)));
  EXPECT_EQ(refused(frame(2)), Errc::bad_frame);
  EXPECT_EQ(refused(frame(1, 100, 50, 100)), Errc::bad_frame) << "its beginning is missing";
  ASSERT_TRUE(take_part(inbox_, frame(1, 100, 0, 50)));
  EXPECT_EQ(refused(frame(1, 100, 60, 100)), Errc::bad_frame) << "ten bytes are missing";
}

TEST_F(NodeParts, WhoseSizesLieAreRefused) {
  wire::Frame longer = frame(0);
  longer.payload.resize(11);
  EXPECT_EQ(refused(longer), Errc::bad_frame);
  wire::Frame shorter = frame(0);
  shorter.payload.resize(9);
  EXPECT_EQ(refused(shorter), Errc::bad_frame) << "it says that it is the last piece";
  wire::Frame endless = frame(0);
  endless.header.flags = 0;
  EXPECT_EQ(refused(endless), Errc::bad_frame);
  wire::Frame huge = frame(0);
  huge.json = wire::to_json(wire::PartMessage{{{"text", wire::DType::uint8, {1LL << 40}, 1ULL << 40}}, 1ULL << 40});
  EXPECT_EQ(refused(huge), Errc::result_too_large);
  wire::Frame other = frame(0);
  other.json = wire::to_json(wire::PartMessage{{{"text", wire::DType::uint8, {10}, 10}}, 11});
  EXPECT_EQ(refused(other), Errc::bad_frame);
  wire::Frame text = frame(0);
  text.json = "no json";
  EXPECT_EQ(refused(text), Errc::bad_frame);
}

TEST_F(NodeParts, OfANodeThatDoesNotWaitAreRefusedInTheEnd) {
  Errc end{};
  for (std::uint32_t i = 0; i < 5000 && end == Errc{}; ++i) end = refused(frame(i));
  EXPECT_EQ(end, Errc::bad_frame);
  EXPECT_LE(inbox_.parts.size(), 1024U);
}

TEST_F(NodeParts, AfterTheResultAreRefused) {
  inbox_.whole = true;
  EXPECT_EQ(refused(frame(0)), Errc::bad_frame);
}

}  // namespace
}  // namespace gearbox::client
