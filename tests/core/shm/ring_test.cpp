#include "gearbox/shm/ring.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gearbox::shm {

namespace {
constexpr std::uint32_t kCapacity = 4;

struct Pair {
  RingSide side{};
  std::vector<Descriptor> entries = std::vector<Descriptor>(kCapacity);
  RingProducer producer{side, entries.data(), kCapacity};
  RingConsumer consumer{side, entries.data(), kCapacity};
};

Descriptor numbered(std::uint64_t request) {
  Descriptor descriptor{};
  descriptor.request = request;
  return descriptor;
}
}  // namespace

TEST(Ring, DeliversInOrderAcrossTheWrap) {
  Pair ring;
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(ring.producer.push(numbered(2 * i)));
    ASSERT_TRUE(ring.producer.push(numbered(2 * i + 1)));
    EXPECT_FALSE(ring.producer.publish());
    ASSERT_EQ(ring.consumer.ready().value(), 2U);
    EXPECT_EQ(ring.consumer.take().request, next++);
    EXPECT_EQ(ring.consumer.take().request, next++);
    ring.consumer.release();
  }
}

TEST(Ring, ShowsNothingBeforeItIsPublished) {
  Pair ring;
  ASSERT_TRUE(ring.producer.push(numbered(1)));
  EXPECT_EQ(ring.consumer.ready().value(), 0U);
  EXPECT_TRUE(ring.consumer.may_sleep());
  EXPECT_TRUE(ring.producer.publish());
  EXPECT_EQ(ring.consumer.ready().value(), 1U);
}

TEST(Ring, AFullRingRefusesUntilTheConsumerReleases) {
  Pair ring;
  for (std::uint64_t i = 0; i < kCapacity; ++i) ASSERT_TRUE(ring.producer.push(numbered(i)));
  EXPECT_FALSE(ring.producer.publish());
  EXPECT_EQ(ring.producer.push(numbered(9)).error().code, Errc::overloaded);
  ASSERT_EQ(ring.consumer.ready().value(), kCapacity);
  EXPECT_EQ(ring.consumer.take().request, 0U);
  EXPECT_EQ(ring.producer.push(numbered(9)).error().code, Errc::overloaded);
  ring.consumer.release();
  EXPECT_TRUE(ring.producer.push(numbered(9)));
}

TEST(Ring, ASleeperIsRungAndOnlyItClearsItsFlag) {
  Pair ring;
  ASSERT_TRUE(ring.consumer.may_sleep());
  ASSERT_TRUE(ring.producer.push(numbered(1)));
  EXPECT_TRUE(ring.producer.publish());
  ASSERT_TRUE(ring.producer.push(numbered(2)));
  EXPECT_TRUE(ring.producer.publish()) << "the producer cleared the flag of a sleeper";
  ring.consumer.wake();
  ASSERT_TRUE(ring.producer.push(numbered(3)));
  EXPECT_FALSE(ring.producer.publish());
  EXPECT_FALSE(ring.consumer.may_sleep());
}

TEST(Ring, AHeadThatIsOutOfRangeIsRefused) {
  for (const std::uint64_t lie : {std::uint64_t{kCapacity + 1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    Pair ring;
    ring.side.head.store(lie);
    EXPECT_EQ(ring.consumer.ready().error().code, Errc::bad_frame) << lie;
  }
}

TEST(Ring, AHeadThatGoesBackIsRefused) {
  Pair ring;
  ASSERT_TRUE(ring.producer.push(numbered(1)));
  EXPECT_FALSE(ring.producer.publish());
  ASSERT_EQ(ring.consumer.ready().value(), 1U);
  ring.consumer.take();
  ring.side.head.store(0);
  EXPECT_EQ(ring.consumer.ready().error().code, Errc::bad_frame);
}

TEST(Ring, ATailThatIsOutOfRangeIsRefused) {
  for (const std::uint64_t lie : {std::uint64_t{kCapacity + 1}, ~std::uint64_t{0}}) {
    Pair ring;
    for (std::uint64_t i = 0; i < kCapacity; ++i) ASSERT_TRUE(ring.producer.push(numbered(i)));
    EXPECT_FALSE(ring.producer.publish());
    ring.side.tail.store(lie);
    EXPECT_EQ(ring.producer.push(numbered(9)).error().code, Errc::bad_frame) << lie;
  }
}

TEST(Ring, MemoryThatIsNoRingIsRefused) {
  std::vector<std::uint64_t> memory(ring_bytes(kCapacity) / 8 + 16);
  void* at = memory.data();
  std::size_t space = memory.size() * 8;
  ASSERT_NE(std::align(64, ring_bytes(kCapacity), at, space), nullptr);
  EXPECT_EQ(open_ring(at, ring_bytes(kCapacity), kCapacity).error().code, Errc::bad_frame);
  RingMemory* ring = make_ring(at, kCapacity);
  EXPECT_TRUE(open_ring(at, ring_bytes(kCapacity), kCapacity));
  EXPECT_FALSE(open_ring(at, ring_bytes(kCapacity) - 1, kCapacity));
  EXPECT_FALSE(open_ring(at, ring_bytes(kCapacity), 3));
  EXPECT_FALSE(open_ring(at, ring_bytes(kCapacity), 0));
  ring->layout_version = kLayoutVersion + 1;
  EXPECT_FALSE(open_ring(at, ring_bytes(kCapacity), kCapacity));
}

}  // namespace gearbox::shm
