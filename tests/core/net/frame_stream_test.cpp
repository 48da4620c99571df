#include "gearbox/net/frame_stream.hpp"

#include <ostream>

#include "core/net/stream_fixture.hpp"

namespace gearbox::net {
namespace {

struct Wire {
  const char* name;
  bool sealed;
  bool tcp;
};
void PrintTo(const Wire& wire, std::ostream* out) {
  *out << wire.name;
}

class FrameStreamOn : public StreamFixture, public testing::WithParamInterface<Wire> {
 protected:
  std::pair<Stream, Stream> pair() {
    const auto descriptors = GetParam().tcp ? tcp_pair() : unix_pair();
    if (GetParam().sealed) return sealed_pair(descriptors);
    return {adopt(descriptors.first), adopt(descriptors.second)};
  }
};

INSTANTIATE_TEST_SUITE_P(Wires, FrameStreamOn,
                         testing::Values(Wire{"SealedTcp", true, true}, Wire{"SealedUnix", true, false},
                                         Wire{"PlainUnix", false, false}),
                         [](const auto& wire) { return wire.param.name; });

TEST_P(FrameStreamOn, FramesOfAllSizesArriveAsTheyWereSent) {
  auto [client, server] = pair();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{3900},
                                  std::size_t{4096}, std::size_t{65'374}, std::size_t{65'375}, std::size_t{65'536},
                                  std::size_t{400'000}, std::size_t{wire::kMaxPayloadBytes}}) {
    const Bytes payload = pattern(bytes, static_cast<unsigned>(bytes));
    const std::string json = bytes % 2 == 0 ? R"({"task":"x"})" : "";
    wire::FrameHeader header = header_of(wire::FrameType::upload_data);
    header.offset = 1'234'567'890'123;
    header.request = link::random_request_id();
    header.part = 7;
    Outcome<void> written = done();
    Outcome<wire::Frame> frame = Error{};
    run(write(client, header, json, payload, written), read(server, frame));
    ASSERT_TRUE(written.has_value()) << describe(written.error());
    ASSERT_TRUE(frame.has_value()) << bytes << ": " << describe(frame.error());
    EXPECT_EQ(frame.value().json, json);
    EXPECT_EQ(frame.value().payload, payload) << bytes;
    EXPECT_EQ(frame.value().header.request, header.request);
    EXPECT_EQ(frame.value().header.offset, header.offset);
    EXPECT_EQ(frame.value().header.part, 7U);
  }
  EXPECT_EQ(client->bytes_written(), server->bytes_read());
}

TEST_P(FrameStreamOn, TheLargestJsonAndPayloadTogetherPassAndLargerOnesAreNotSent) {
  auto [client, server] = pair();
  const Bytes payload = pattern(wire::kMaxPayloadBytes, 1);
  const std::string json(wire::kMaxJsonBytes, 'j');
  Outcome<void> written = done();
  Outcome<wire::Frame> frame = Error{};
  run(write(client, {}, json, payload, written), read(server, frame));
  ASSERT_TRUE(frame.has_value()) << describe(frame.error());
  EXPECT_EQ(frame.value().json, json);
  EXPECT_EQ(frame.value().payload, payload);

  EXPECT_EQ(code_of(write_now(client, json + "j")), Errc::frame_too_large);
  const Bytes over(wire::kMaxPayloadBytes + 1);
  EXPECT_EQ(code_of(write_now(client, {}, over)), Errc::frame_too_large);
  ASSERT_TRUE(write_now(client, "next").has_value()) << "nothing of those was sent";
  EXPECT_EQ(read_now(server).value().json, "next");
}

asio::awaitable<void> read_into(std::shared_ptr<FrameStream> from, ByteSpan memory, Outcome<void>& result) {
  Outcome<wire::FrameHeader> header = co_await FrameStream::read_header(from, kSoon);
  if (!header) {
    result = header.error();
    co_return;
  }
  result = co_await FrameStream::read_body(from, memory, kSoon);
}

TEST_P(FrameStreamOn, ABodyIsOpenedIntoTheCallersMemoryAndNowhereElse) {
  auto [client, server] = pair();
  const Bytes payload = pattern(300'000, 9);
  Bytes slab(300'000 + 20, std::byte{0xEE});
  Outcome<void> written = done();
  Outcome<void> taken = done();
  run(write(client, {}, "{}", payload, written), read_into(server, ByteSpan(slab).subspan(8, 300'002), taken));
  ASSERT_TRUE(taken.has_value()) << describe(taken.error());
  EXPECT_EQ(text_of(ByteView(slab).subspan(8, 2)), "{}");
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), slab.begin() + 10));
  for (const std::size_t i : {0, 7, 300'010, 300'019}) EXPECT_EQ(slab[i], std::byte{0xEE}) << i;
}

asio::awaitable<void> skip_one(std::shared_ptr<FrameStream> from, Outcome<void>& result) {
  Outcome<wire::FrameHeader> header = co_await FrameStream::read_header(from, kSoon);
  if (!header) co_return;
  result = co_await FrameStream::skip_body(from, kSoon);
}
/// Reads a header, leaves its body, and reads the next frame.
asio::awaitable<void> forget_one(std::shared_ptr<FrameStream> from, Outcome<wire::Frame>& next) {
  Outcome<wire::FrameHeader> forgotten = co_await FrameStream::read_header(from, kSoon);
  if (!forgotten) co_return;
  next = co_await FrameStream::read_frame(from, kSoon);
}

TEST_P(FrameStreamOn, ASkippedOrForgottenBodyLeavesTheNextFrameWhole) {
  auto [client, server] = pair();
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{500'000}}) {
    const Bytes payload = pattern(bytes, 3);
    Outcome<void> written = done();
    Outcome<void> skipped = Error{Errc::internal, "not skipped"};
    run(write(client, {}, "one", payload, written), skip_one(server, skipped));
    EXPECT_TRUE(skipped.has_value());
    Outcome<void> second = done();
    Outcome<wire::Frame> next = Error{Errc::internal, "not read"};
    run(write(client, {}, "two", payload, written), write(client, {}, "three", payload, second),
        forget_one(server, next));
    ASSERT_TRUE(next.has_value()) << describe(next.error());
    EXPECT_EQ(next.value().json, "three");
    EXPECT_EQ(next.value().payload, payload);
  }
}

TEST_P(FrameStreamOn, ATimeoutBetweenFramesLosesNothing) {
  auto [client, server] = pair();
  EXPECT_EQ(code_of(read_now(server, kShort)), Errc::timeout);
  EXPECT_EQ(code_of(read_now(server, kShort)), Errc::timeout);
  EXPECT_TRUE(server->is_open());
  ASSERT_TRUE(write_now(client, "late").has_value());
  EXPECT_EQ(read_now(server).value().json, "late");
}

TEST_P(FrameStreamOn, AnOrderlyEndIsToldAsClosed) {
  auto [client, server] = pair();
  ASSERT_TRUE(write_now(client, "last").has_value());
  client->close();
  client->close();
  EXPECT_FALSE(client->is_open());
  EXPECT_EQ(read_now(server).value().json, "last");
  EXPECT_EQ(code_of(read_now(server)), Errc::closed);
  EXPECT_EQ(code_of(read_now(client)), Errc::closed);
  EXPECT_EQ(code_of(write_now(client, "x")), Errc::closed);
}

TEST_P(FrameStreamOn, CloseWakesWhoWaits) {
  auto [client, server] = pair();
  Outcome<wire::Frame> frame = Error{};
  const auto close_soon = [](Stream stream) -> asio::awaitable<void> {
    stream->close();
    co_return;
  };
  run(read(server, frame), close_soon(server));
  EXPECT_EQ(code_of(frame), Errc::closed);
}

TEST_P(FrameStreamOn, APayloadOverTheReadersLimitIsRefusedBeforeMemoryIsTaken) {
  auto [client, server] = pair();
  ASSERT_TRUE(write_now(client, "{}", pattern(100, 1)).has_value());
  Outcome<wire::Frame> frame = Error{};
  const auto read_limited = [](Stream from, Outcome<wire::Frame>& result) -> asio::awaitable<void> {
    result = co_await FrameStream::read_frame(from, kSoon, 99);
  };
  run(read_limited(server, frame));
  EXPECT_EQ(code_of(frame), Errc::frame_too_large);
}

}  // namespace
}  // namespace gearbox::net
