#include "worker_pool/slab_allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace gearbox::worker_pool {

TEST(SlabAllocator, ReusesTheLastPieceOfAClassFirst) {
  SlabAllocator allocator(1 << 20);
  const auto a = allocator.take(3000);
  const auto b = allocator.take(3000);
  ASSERT_TRUE(a && b);
  allocator.give(*a);
  allocator.give(*b);
  EXPECT_EQ(allocator.take(2990)->offset, b->offset);
  EXPECT_EQ(allocator.take(3000)->offset, a->offset);
}

TEST(SlabAllocator, JoinsPiecesOfOneSizeForAnother) {
  SlabAllocator allocator(1 << 20);
  std::vector<SlabAllocator::Piece> pieces;
  while (auto piece = allocator.take(1000)) pieces.push_back(*piece);
  for (const auto& piece : pieces) allocator.give(piece);
  EXPECT_TRUE(allocator.take(1 << 20).has_value());
}

TEST(SlabAllocator, RefusesWhatIsLargerThanTheArena) {
  SlabAllocator allocator(1 << 20);
  EXPECT_FALSE(allocator.take((1 << 20) + 1).has_value());
  EXPECT_FALSE(allocator.take(~std::uint64_t{0}).has_value());
}

TEST(SlabAllocator, TrimGivesTheRestBack) {
  SlabAllocator allocator(1 << 20);
  auto large = allocator.take(1 << 20);
  ASSERT_TRUE(large);
  allocator.trim(*large, 100);
  EXPECT_EQ(allocator.used_bytes(), 128U);
  const auto rest = allocator.take((1 << 20) - (128 << 10));
  ASSERT_TRUE(rest);
  EXPECT_GE(rest->offset, 128U);
  allocator.give(*large);
  allocator.give(*rest);
  EXPECT_EQ(allocator.used_bytes(), 0U);
  EXPECT_TRUE(allocator.take(1 << 20).has_value());
}

TEST(SlabAllocator, NeverGivesOneByteTwice) {
  SlabAllocator allocator(4 << 20);
  std::map<std::uint64_t, SlabAllocator::Piece> held;
  std::mt19937 random(1);
  for (int i = 0; i < 50'000; ++i) {
    if (held.size() < 40 && random() % 2 == 0) {
      auto piece = allocator.take(1 + random() % 200'000);
      if (!piece) continue;
      if (random() % 4 == 0) allocator.trim(*piece, 1 + random() % piece->bytes);
      ASSERT_LE(piece->offset + piece->bytes, allocator.capacity_bytes());
      const auto next = held.lower_bound(piece->offset);
      if (next != held.end()) {
        ASSERT_LE(piece->offset + piece->bytes, next->first);
      }
      if (next != held.begin()) {
        const auto& before = std::prev(next)->second;
        ASSERT_LE(before.offset + before.bytes, piece->offset);
      }
      held.emplace(piece->offset, *piece);
    } else if (!held.empty()) {
      auto any = std::next(held.begin(), static_cast<long>(random() % held.size()));
      allocator.give(any->second);
      held.erase(any);
    }
  }
  for (const auto& [offset, piece] : held) allocator.give(piece);
  EXPECT_EQ(allocator.used_bytes(), 0U);
  EXPECT_TRUE(allocator.take(4 << 20).has_value());
}

}  // namespace gearbox::worker_pool
