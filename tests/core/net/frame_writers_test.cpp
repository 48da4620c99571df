// Several writers, slow readers.
#include <boost/asio/detached.hpp>

#include "core/net/stream_fixture.hpp"

namespace gearbox::net {
namespace {

class FrameWriters : public StreamFixture {
 protected:
  static void small_buffers(int descriptor) {
    const int bytes = 4096;
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  std::pair<Stream, Stream> narrow_pair(bool sealed) {
    const auto descriptors = unix_pair();
    small_buffers(descriptors.first);
    small_buffers(descriptors.second);
    if (sealed) return sealed_pair(descriptors);
    return {adopt(descriptors.first), adopt(descriptors.second)};
  }
  /// Writes `count` frames whose bytes are all `mark`.
  static asio::awaitable<void> write_many(Stream to, std::uint8_t mark, int count, int& failures) {
    for (int i = 0; i < count; ++i) {
      const Bytes payload(10'000 + 1'000 * mark, static_cast<std::byte>(mark));
      wire::FrameHeader header;
      header.part = static_cast<std::uint32_t>(i);
      header.tenant = mark;
      Outcome<void> written = co_await FrameStream::write_frame(to, header, std::string(mark, 'j'), payload, kSoon);
      if (!written) ++failures;
    }
  }
  static asio::awaitable<void> read_many(Stream from, std::size_t count, std::vector<wire::Frame>& into) {
    while (into.size() < count) {
      Outcome<wire::Frame> frame = co_await FrameStream::read_frame(from, kSoon);
      if (!frame) {
        ADD_FAILURE() << describe(frame.error());
        co_return;
      }
      into.push_back(std::move(frame).value());
    }
  }
};

TEST_F(FrameWriters, NeverMixTheirFramesAndTakeTurns) {
  for (const bool sealed : {false, true}) {
    auto [client, server] = narrow_pair(sealed);
    std::vector<wire::Frame> frames;
    int failures = 0;
    run(write_many(client, 1, 20, failures), write_many(client, 2, 20, failures), write_many(client, 60, 20, failures),
        read_many(server, 60, frames));
    EXPECT_EQ(failures, 0);
    ASSERT_EQ(frames.size(), 60U);
    std::array<std::uint32_t, 64> next{};
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const wire::Frame& frame = frames[i];
      const std::size_t mark = frame.header.tenant;
      EXPECT_EQ(frame.header.part, next[mark]++) << "a writer's own frames stay in order";
      EXPECT_EQ(frame.json, std::string(mark, 'j'));
      EXPECT_EQ(frame.payload, Bytes(10'000 + 1'000 * mark, static_cast<std::byte>(mark)));
      // Three writers that always have more: each gets every third turn, whatever the size of its frames.
      if (i >= 3) {
        EXPECT_EQ(mark, frames[i - 3].header.tenant) << i;
      }
    }
  }
}

TEST_F(FrameWriters, APeerThatDoesNotReadEndsInATimeoutForAllWhoWait) {
  auto [client, server] = narrow_pair(true);
  const Bytes payload(wire::kMaxPayloadBytes);
  Outcome<void> first = done();
  Outcome<void> second = done();
  run(write(client, {}, {}, payload, first, kShort), write(client, {}, {}, payload, second, kSoon));
  EXPECT_EQ(code_of(first), Errc::timeout);
  EXPECT_EQ(code_of(second), Errc::closed) << "the stream is closed then; nobody waits on for a dead peer";
  EXPECT_FALSE(client->is_open());
}

struct Counts {
  int overloaded = 0;
  int others = 0;
};

asio::awaitable<void> write_and_count(std::shared_ptr<FrameStream> to, const Bytes& payload, Counts& counts) {
  Outcome<void> written = co_await FrameStream::write_frame(to, wire::FrameHeader(), std::string(), payload, kSoon);
  ++(!written && written.error().code == Errc::overloaded ? counts.overloaded : counts.others);
}

asio::awaitable<void> close_when_three_are_refused(std::shared_ptr<FrameStream> stream, const Counts& counts, int all) {
  const Instant deadline = after(Clock::now(), kSoon);
  while (counts.overloaded < 3 && Clock::now() < deadline) co_await pause_until(after(Clock::now(), milliseconds(1)));
  stream->close();
  while (counts.overloaded + counts.others < all) co_await pause_until(after(Clock::now(), milliseconds(1)));
}

TEST_F(FrameWriters, AreLimitedInNumber) {
  auto [client, server] = narrow_pair(true);
  const Bytes payload(100'000);
  Counts counts;
  for (int i = 0; i < 260; ++i) asio::co_spawn(io_, write_and_count(client, payload, counts), asio::detached);
  run(close_when_three_are_refused(client, counts, 260));
  EXPECT_EQ(counts.overloaded, 3) << "one writes, 256 wait";
  EXPECT_EQ(counts.others, 257);
}

TEST_F(FrameWriters, AClosedPeerIsAnErrorAndNoSignal) {
  auto [client, server] = narrow_pair(false);
  server->close();
  EXPECT_EQ(code_of(write_now(client, "x")), Errc::closed);
}

}  // namespace
}  // namespace gearbox::net
