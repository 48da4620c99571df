// Ranks as threads over one region, so that the thread sanitizer sees every access.
#include "collective.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kLimit = 20000;  // ms: far more than any round takes

/// A region with its memory.
class Region {
 public:
  Region(std::vector<std::uint32_t> members, std::uint32_t channels, std::uint64_t slot_bytes = 256)
      : bytes_(gbx_region_bytes(members.data(), static_cast<std::uint32_t>(members.size()), channels, slot_bytes)) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    formatted_ = gbx_region_format(base_, bytes_, members.data(), static_cast<std::uint32_t>(members.size()), channels,
                                   slot_bytes);
  }
  ~Region() { munmap(base_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  gbx_collective* open() { return gbx_open(base_, bytes_); }
  void* base() { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  int formatted() const { return formatted_; }

 private:
  std::uint64_t bytes_;
  void* base_ = nullptr;
  int formatted_ = GBX_WRONG;
};

void run(std::uint32_t ranks, const std::function<void(std::uint32_t)>& rank) {
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < ranks; ++i) threads.emplace_back(rank, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Collective, AddsInTheOrderOfMembersForAll) {
  Region region({4}, 0);
  ASSERT_EQ(region.formatted(), GBX_OK);
  constexpr std::size_t kCount = 500;  // several slots of 64 floats
  constexpr int kRounds = 200;
  std::array<std::vector<float>, 4> got;
  std::atomic<int> failed{0};
  run(4, [&](std::uint32_t rank) {
    gbx_collective* self = region.open();
    std::vector<float> data(kCount);
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) {
        data[i] = static_cast<float>(rank) * 1e7F + static_cast<float>(i) * 0.1F + static_cast<float>(round);
      }
      if (gbx_all_reduce(self, 0, rank, data.data(), kCount, kLimit) != GBX_OK) ++failed;
      for (std::size_t i = 0; i < kCount; ++i) {
        float want = 0;
        for (std::uint32_t member = 0; member < 4; ++member) {
          const float part =
              static_cast<float>(member) * 1e7F + static_cast<float>(i) * 0.1F + static_cast<float>(round);
          want = member == 0 ? part : want + part;
        }
        if (data[i] != want) ++failed;
      }
    }
    got[rank] = data;
    gbx_close(self);
  });
  EXPECT_EQ(failed, 0);
  for (const auto& each : got) EXPECT_EQ(each, got[0]);
}

TEST(Collective, GathersWhatEachHas) {
  Region region({2, 3}, 0);
  std::atomic<int> failed{0};
  run(3, [&](std::uint32_t rank) {
    gbx_collective* self = region.open();
    for (int round = 0; round < 50; ++round) {
      std::array<int, 200> mine{};  // 800 bytes: four slots
      mine.fill(static_cast<int>(rank) * 1000 + round);
      std::vector<int> all(3 * mine.size());
      if (gbx_all_gather(self, 1, rank, mine.data(), sizeof(mine), all.data(), kLimit) != GBX_OK) ++failed;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != static_cast<int>(i / mine.size()) * 1000 + round) ++failed;
      }
    }
    gbx_close(self);
  });
  EXPECT_EQ(failed, 0);
}

TEST(Collective, HandsOnInOrderWithTheWriterAheadByTwo) {
  Region region({}, 1);
  std::atomic<int> failed{0};
  run(2, [&](std::uint32_t rank) {
    gbx_collective* self = region.open();
    for (int round = 0; round < 300; ++round) {
      std::array<int, 150> data{};  // 600 bytes: three pieces
      if (rank == 0) {
        data.fill(round);
        if (gbx_send(self, 0, data.data(), sizeof(data), kLimit) != GBX_OK) ++failed;
      } else {
        if (gbx_receive(self, 0, data.data(), sizeof(data), kLimit) != GBX_OK) ++failed;
        for (const int value : data) failed += value != round ? 1 : 0;
      }
    }
    gbx_close(self);
  });
  EXPECT_EQ(failed, 0);
}

TEST(Collective, AnAbortWakesAllWhoWaitAndAllWhoCome) {
  Region region({3}, 1);
  std::atomic<int> aborted{0};
  const auto began = std::chrono::steady_clock::now();
  run(3, [&](std::uint32_t rank) {
    gbx_collective* self = region.open();
    if (rank == 0) {
      gbx_abort(self);  // before, while or after the others begin to wait: all the same to them
      aborted += gbx_barrier(self, 0, 0, kLimit) == GBX_ABORTED ? 1 : 0;
    } else if (rank == 1) {
      aborted += gbx_barrier(self, 0, 1, kLimit) == GBX_ABORTED ? 1 : 0;
    } else {
      int data = 0;
      aborted += gbx_receive(self, 0, &data, sizeof(data), kLimit) == GBX_ABORTED ? 1 : 0;
    }
    gbx_close(self);
  });
  EXPECT_EQ(aborted, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST(Collective, AnAbortWakesOneThatSleeps) {
  for (int i = 0; i < 50; ++i) {
    Region region({2}, 0);
    std::atomic<bool> waits{false};
    int got = GBX_OK;
    std::thread sleeper([&] {
      gbx_collective* self = region.open();
      waits = true;
      got = gbx_barrier(self, 0, 0, kLimit);
      gbx_close(self);
    });
    while (!waits) std::this_thread::yield();
    gbx_collective* other = region.open();
    gbx_abort(other);
    sleeper.join();
    gbx_close(other);
    ASSERT_EQ(got, GBX_ABORTED);
  }
}

TEST(Collective, WaitsNoLongerThanItsDeadline) {
  Region region({2}, 1);
  gbx_collective* self = region.open();
  int data = 0;
  EXPECT_EQ(gbx_receive(self, 0, &data, sizeof(data), 20), GBX_TIMEOUT);
  EXPECT_EQ(gbx_barrier(self, 0, 0, 20), GBX_TIMEOUT);
  gbx_close(self);
}

TEST(Collective, RefusesWhatCannotBe) {
  const std::array<std::uint32_t, 2> none{0, 1};
  EXPECT_EQ(gbx_region_bytes(none.data(), 2, 0, 64), 0U);
  const std::array<std::uint32_t, 1> two{2};
  EXPECT_EQ(gbx_region_bytes(two.data(), 1, 0, 65), 0U);
  EXPECT_EQ(gbx_region_bytes(two.data(), 1, 0, 0), 0U);
  Region region({2}, 1);
  EXPECT_EQ(gbx_open(region.base(), region.bytes() - 1), nullptr);
  gbx_collective* self = region.open();
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(gbx_barrier(self, 0, 2, kLimit), GBX_WRONG);
  EXPECT_EQ(gbx_barrier(self, 1, 0, kLimit), GBX_WRONG);
  EXPECT_EQ(gbx_send(self, 1, &self, 1, kLimit), GBX_WRONG);
  gbx_close(self);
  static_cast<std::uint32_t*>(region.base())[0] = 7;
  EXPECT_EQ(region.open(), nullptr);
}

}  // namespace
