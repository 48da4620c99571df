#include "gearbox/link/upload.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/link/code_of.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::link {
namespace {

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) & 0xFF);
  return out;
}

std::vector<UploadSender::Input> any_inputs() {
  UploadSender::Input stored{pattern(1'000'000, 1), {}};
  UploadSender::Input empty{{}, {}};
  UploadSender::Input coded{pattern(700, 2), {300, 150, 250}};
  return {stored, empty, coded};
}

wire::Submit submit_for(const UploadSender& sender) {
  wire::Submit submit;
  submit.task = "read-text";
  submit.inputs.resize(3);
  submit.inputs[0].tensor = {"file", wire::DType::uint8, {1'000'000}, 1'000'000};
  submit.inputs[0].wire_bytes = 1'000'000;
  submit.inputs[1].tensor = {"nothing", wire::DType::uint8, {0}, 0};
  submit.inputs[2].tensor = {"depth", wire::DType::uint16, {500}, 1000};
  submit.inputs[2].wire_bytes = 700;
  submit.inputs[2].codecs = {"zstd"};
  submit.wire_bytes = sender.wire_bytes();
  submit.digest = sender.digest();
  return submit;
}

constexpr std::uint64_t kLimit = 10'000'000;

TEST(Digest, IsThatOfXxh3InCanonicalForm) {
  EXPECT_EQ(Digest().hex(), "99aa06d3014798d86001c324468d497f");  // the published value for no bytes
  Digest in_parts;
  const Bytes bytes = pattern(5000, 3);
  in_parts.update(ByteView(bytes).first(17));
  in_parts.update(ByteView(bytes).subspan(17));
  Digest at_once;
  at_once.update(bytes);
  EXPECT_EQ(in_parts.hex(), at_once.hex());
  EXPECT_EQ(in_parts.hex(), at_once.hex()) << "may be asked again";
}

TEST(Upload, GoesThroughItsStatesToTheEnd) {
  UploadSender sender(any_inputs());
  auto announced = UploadReceiver::announce(submit_for(sender), kLimit);
  ASSERT_TRUE(announced.has_value()) << announced.error().detail;
  UploadReceiver& receiver = announced.value();
  EXPECT_EQ(receiver.state(), UploadState::announced);
  std::size_t tiles = 0;
  while (!sender.finished()) {
    const UploadReceiver::Place place = receiver.place();
    const UploadSender::Chunk chunk = sender.next();
    EXPECT_NE(place.input, 1U) << "an input without bytes is passed over";
    EXPECT_LE(chunk.bytes.size(), place.left_in_input);
    EXPECT_LE(chunk.bytes.size(), wire::kMaxPayloadBytes);
    if (place.input == 2) ++tiles;
    ASSERT_TRUE(receiver.received(chunk.offset, chunk.bytes).has_value());
    EXPECT_EQ(receiver.state(), UploadState::receiving);
  }
  EXPECT_EQ(tiles, 3U) << "each tile travels whole and alone";
  ASSERT_TRUE(receiver.complete());
  ASSERT_TRUE(receiver.verify().has_value());
  EXPECT_EQ(receiver.state(), UploadState::verifying);
  receiver.to(UploadState::accepted);
  receiver.to(UploadState::running);
  receiver.to(UploadState::done);
  EXPECT_EQ(code_of(receiver.received(sender.wire_bytes(), view_of("x"))), Errc::bad_frame);
}

TEST(Upload, OfNoBytesIsCompleteAtOnce) {
  UploadSender sender({UploadSender::Input{}});
  EXPECT_TRUE(sender.finished());
  wire::Submit submit;
  submit.task = "t";
  submit.inputs.resize(1);
  submit.inputs[0].tensor = {"x", wire::DType::uint8, {0}, 0};
  submit.digest = sender.digest();
  auto receiver = UploadReceiver::announce(submit, kLimit);
  ASSERT_TRUE(receiver.has_value()) << receiver.error().detail;
  EXPECT_TRUE(receiver.value().complete());
  EXPECT_TRUE(receiver.value().verify().has_value());
}

TEST(Upload, AChunkElsewhereOrAcrossAnInputsEndIsRefusedAndTheUploadStaysUsable) {
  UploadSender sender(any_inputs());
  UploadReceiver receiver = UploadReceiver::announce(submit_for(sender), kLimit).value();
  const UploadSender::Chunk first = sender.next();
  EXPECT_EQ(code_of(receiver.received(1, first.bytes)), Errc::bad_frame);
  EXPECT_EQ(code_of(receiver.received(0, {})), Errc::bad_frame);
  const Bytes over(1'000'001);
  EXPECT_EQ(code_of(receiver.received(0, over)), Errc::bad_frame);
  EXPECT_EQ(receiver.offset(), 0U);
  ASSERT_TRUE(receiver.received(0, first.bytes).has_value());
  EXPECT_EQ(code_of(receiver.received(0, first.bytes)), Errc::bad_frame) << "the same chunk twice";
  while (!sender.finished()) {
    const UploadSender::Chunk chunk = sender.next();
    ASSERT_TRUE(receiver.received(chunk.offset, chunk.bytes).has_value());
  }
  EXPECT_TRUE(receiver.verify().has_value());
}

TEST(Upload, OtherBytesThanAnnouncedAreRefused) {
  auto inputs = any_inputs();
  wire::Submit submit = submit_for(UploadSender(inputs));
  inputs[0].wire[500'000] ^= std::byte{1};
  UploadSender sender(std::move(inputs));
  UploadReceiver receiver = UploadReceiver::announce(submit, kLimit).value();
  while (!sender.finished()) {
    const UploadSender::Chunk chunk = sender.next();
    ASSERT_TRUE(receiver.received(chunk.offset, chunk.bytes).has_value());
  }
  EXPECT_EQ(code_of(receiver.verify()), Errc::digest_mismatch);
  EXPECT_EQ(receiver.state(), UploadState::failed);
}

TEST(Upload, GoesOnFromEachOffsetThatTheNodeCanHave) {
  UploadSender sender(any_inputs());
  std::vector<std::uint64_t> stops{0};
  while (!sender.finished()) {
    const UploadSender::Chunk chunk = sender.next();
    stops.push_back(chunk.offset + chunk.bytes.size());
  }
  for (const std::uint64_t stop : stops) {
    UploadReceiver receiver = UploadReceiver::announce(submit_for(sender), kLimit).value();
    ASSERT_TRUE(sender.seek(0).has_value());
    while (receiver.offset() < stop) {
      const UploadSender::Chunk chunk = sender.next();
      ASSERT_TRUE(receiver.received(chunk.offset, chunk.bytes).has_value());
    }
    ASSERT_TRUE(sender.seek(receiver.offset()).has_value()) << stop;  // a new connection: the node says where it is
    while (!sender.finished()) {
      const UploadSender::Chunk chunk = sender.next();
      ASSERT_TRUE(receiver.received(chunk.offset, chunk.bytes).has_value()) << stop;
    }
    EXPECT_TRUE(receiver.verify().has_value()) << stop;
  }
}

TEST(Upload, SeekingIntoATileOrBeyondTheEndIsRefusedAndChangesNothing) {
  UploadSender sender(any_inputs());
  ASSERT_TRUE(sender.seek(12'345).has_value()) << "a stored input may be cut anywhere";
  EXPECT_EQ(code_of(sender.seek(1'000'001)), Errc::bad_frame);
  EXPECT_EQ(code_of(sender.seek(1'000'701)), Errc::bad_frame);
  EXPECT_EQ(sender.next().offset, 12'345U);
  ASSERT_TRUE(sender.seek(1'000'300).has_value());
  EXPECT_EQ(sender.next().bytes.size(), 150U);
  ASSERT_TRUE(sender.seek(1'000'700).has_value());
  EXPECT_TRUE(sender.finished());
}

TEST(Upload, AnAnnouncementThatDoesNotFitItselfIsRefused) {
  const UploadSender sender(any_inputs());
  const auto refusal = [&](auto change) {
    wire::Submit submit = submit_for(sender);
    change(submit);
    const auto outcome = UploadReceiver::announce(submit, kLimit);
    return outcome ? Errc{} : outcome.error().code;
  };
  using S = wire::Submit;
  EXPECT_EQ(refusal([](S& s) { s.wire_bytes += 1; }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs.clear(); }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs.resize(65); }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.digest = "xyz"; }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs[0].tensor.shape = {5}; }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs[2].tensor.name = "file"; }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs[2].codecs.clear(); }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs[2].codecs.assign(9, "zstd"); }), Errc::bad_input);
  EXPECT_EQ(refusal([](S& s) { s.inputs[2].codecs = {"../x"}; }), Errc::bad_name);
  EXPECT_EQ(refusal([](S& s) { s.task = "a/b"; }), Errc::bad_name);
  EXPECT_EQ(refusal([](S& s) { s.inputs[0].tensor.bytes = kLimit + 1; }), Errc::too_large);
  EXPECT_EQ(refusal([](S& s) { s.inputs[0].wire_bytes = s.inputs[2].wire_bytes = UINT64_MAX; }), Errc::too_large);
  EXPECT_EQ(refusal([](S&) {}), Errc{});
}

TEST(Upload, TheSameAnnouncementIsRecognised) {
  const UploadSender sender(any_inputs());
  const wire::Submit submit = submit_for(sender);
  const UploadReceiver receiver = UploadReceiver::announce(submit, kLimit).value();
  EXPECT_TRUE(receiver.matches(submit));
  wire::Submit other = submit;
  other.digest[0] = other.digest[0] == '0' ? '1' : '0';
  EXPECT_FALSE(receiver.matches(other));
}

TEST(UploadDeathTest, AStepThatTheStatesDoNotHaveEndsTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const UploadSender sender(any_inputs());
  UploadReceiver receiver = UploadReceiver::announce(submit_for(sender), kLimit).value();
  EXPECT_DEATH(receiver.to(UploadState::running), "does not have|do not have");
}

}  // namespace
}  // namespace gearbox::link
