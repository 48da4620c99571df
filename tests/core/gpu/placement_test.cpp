#include "gpu/placement.hpp"

#include <gtest/gtest.h>

namespace gearbox::gpu {
namespace {

constexpr std::uint64_t kMb = 1 << 20;

class Placement : public ::testing::Test {
 protected:
  Placement() {
    look_.sight = Sight::seen;
    look_.at = now_;
  }
  Gpu& add_gpu(std::uint64_t total_mb, std::uint64_t used_mb = 0) {
    Gpu gpu;
    gpu.index = static_cast<std::uint32_t>(look_.gpus.size());
    gpu.uuid = "GPU-" + std::string(1, static_cast<char>('a' + gpu.index));
    gpu.total_bytes = total_mb * kMb;
    gpu.used_bytes = used_mb * kMb;
    return look_.gpus.emplace_back(gpu);
  }
  Decision decide(std::string_view devices, std::uint64_t memory_mb) const {
    return gpu::decide(look_, holders_, read_devices(devices).value(), memory_mb, "m", now_);
  }
  /// Where a worker with that need goes, and that it has its seat there from now on.
  std::string put(std::uint64_t memory_mb, std::string_view devices = "cuda", int pid = 0, bool settled = false) {
    const Decision decision = decide(devices, memory_mb);
    if (!decision.seat) return decision.why;
    holders_.push_back({decision.seat->gpus, memory_mb, pid, settled});
    return *decision.seat->visible;
  }

  Instant now_{seconds(1000)};
  Look look_;
  std::vector<Holder> holders_;
};

TEST_F(Placement, TheOneWithMostLeftGetsTheNextOne) {
  add_gpu(10'000);
  add_gpu(8'000);
  EXPECT_EQ(put(4'000), "GPU-a");  // 10,000 and 8,000
  EXPECT_EQ(put(4'000), "GPU-b");  // 6,000 and 8,000
  EXPECT_EQ(put(3'000), "GPU-a");  // 6,000 and 4,000
  EXPECT_EQ(put(3'500), "GPU-b");  // 3,000 and 4,000
  EXPECT_EQ(put(3'000), "GPU-a");  // 3,000 and 500: just so much
  EXPECT_EQ(put(600), "no GPU has 600 MB free; most: GPU 1 with 500");
}

TEST_F(Placement, OfEqualOnesTheFirst) {
  add_gpu(8'000);
  add_gpu(8'000);
  EXPECT_EQ(put(1'000), "GPU-a");
  EXPECT_EQ(put(1'000), "GPU-b");
  EXPECT_EQ(put(1'000), "GPU-a");
}

TEST_F(Placement, AWorkerThatLeftMakesPlace) {
  add_gpu(8'000);
  EXPECT_EQ(put(5'000), "GPU-a");
  EXPECT_EQ(put(5'000), "no GPU has 5000 MB free; most: GPU 0 with 3000");
  holders_.clear();
  EXPECT_EQ(put(5'000), "GPU-a");
}

TEST_F(Placement, WhatOthersUseIsNotThere) {
  add_gpu(8'000, 5'000);
  add_gpu(8'000, 4'500);
  EXPECT_EQ(put(3'400), "GPU-b");
  EXPECT_EQ(put(3'400), "no GPU has 3400 MB free; most: GPU 0 with 3000");
}

TEST_F(Placement, WhatWorkersHaveYetToClaimIsNotThereEither) {
  add_gpu(24'000, 10'000);  // somebody else's
  EXPECT_EQ(put(8'000), "GPU-a");
  // Neither is loaded: 8,000 of 14,000 are spoken for, although NVML says that 14,000 are free.
  EXPECT_EQ(put(8'000), "no GPU has 8000 MB free; most: GPU 0 with 6000");
}

TEST_F(Placement, WhatASettledWorkerUsesIsCountedOnce) {
  Gpu& gpu = add_gpu(24'000, 7'000);
  holders_.push_back({{"GPU-a"}, 8'000, 11, true});
  EXPECT_EQ(left_on(gpu, look_, holders_).mb, 16'000U);  // its estimate goes beyond what is used
  gpu.used_bytes = 9'000 * kMb;
  EXPECT_EQ(left_on(gpu, look_, holders_).mb, 15'000U);  // and is exceeded
}

TEST_F(Placement, AProcessesOwnUseTellsWhatItHasYetToClaim) {
  Gpu& gpu = add_gpu(24'000, 12'000);
  gpu.processes.push_back({11, 2'000 * kMb});
  holders_.push_back({{"GPU-a"}, 8'000, 11, false});
  EXPECT_EQ(left_on(gpu, look_, holders_).mb, 6'000U);  // 12,000 used, 6,000 to come
  gpu.processes[0].used_bytes = 9'000 * kMb;            // more than was said
  EXPECT_EQ(left_on(gpu, look_, holders_).mb, 12'000U);
  gpu.processes[0].used_bytes.reset();  // not told
  EXPECT_EQ(left_on(gpu, look_, holders_).mb, 4'000U);
}

TEST_F(Placement, ListedOnesGetWhatTheyNameFullOrNotAndCount) {
  add_gpu(8'000);
  add_gpu(8'000);
  EXPECT_EQ(put(6'000, "cuda:1"), "GPU-b");
  EXPECT_EQ(put(6'000, "cuda:1"), "GPU-b");
  EXPECT_EQ(put(4'000), "GPU-a");
  EXPECT_EQ(put(5'000), "no GPU has 5000 MB free; most: GPU 0 with 4000");
}

TEST_F(Placement, SeveralListedOnesShareTheEstimate) {
  add_gpu(8'000);
  add_gpu(8'000);
  const Decision decision = decide("cuda:1,cuda:0", 7'001);
  ASSERT_TRUE(decision.seat);
  EXPECT_EQ(*decision.seat->visible, "GPU-b,GPU-a");
  EXPECT_EQ(decision.seat->device, "cuda:0,cuda:1");
  holders_.push_back({decision.seat->gpus, 7'001, 0, false});
  EXPECT_EQ(left_on(look_.gpus[0], look_, holders_).mb, 4'499U);
  EXPECT_EQ(left_on(look_.gpus[1], look_, holders_).mb, 4'499U);
}

TEST_F(Placement, WithoutAnEstimateAGpuIsItsOwn) {
  add_gpu(8'000, 3'000);
  add_gpu(8'000, 1'000);
  EXPECT_EQ(put(1'000), "GPU-b");
  EXPECT_EQ(put(0), "GPU-a") << "the only one without a worker";
  EXPECT_EQ(put(0), "no GPU is without workers, and m names no memory_mb, so it needs a whole one");
  EXPECT_EQ(put(6'000), "GPU-b");
  EXPECT_EQ(put(1'001), "no GPU has 1001 MB free; most: GPU 1 with 0");
  EXPECT_EQ(left_on(look_.gpus[0], look_, holders_).whole, true);
}

TEST_F(Placement, AllGpusTakenWholeIsSaid) {
  add_gpu(8'000);
  EXPECT_EQ(put(0), "GPU-a");
  EXPECT_EQ(put(10), "no GPU has 10 MB free: each is a worker's whose model names no memory_mb");
}

TEST_F(Placement, TooLargeForAnyIsHopeless) {
  add_gpu(8'000);
  add_gpu(9'000);
  EXPECT_FALSE(decide("cuda", 9'000).hopeless);
  const Decision decision = decide("cuda", 9'001);
  EXPECT_FALSE(decision.seat);
  EXPECT_TRUE(decision.hopeless);
  EXPECT_EQ(decision.why, "no GPU has 9001 MB; the largest: GPU 1 with 9000");
  put(5'000);
  put(5'000);
  EXPECT_FALSE(decide("cuda", 6'000).hopeless) << "workers may go";
}

TEST_F(Placement, ALostGpuGetsNobody) {
  add_gpu(8'000);
  add_gpu(4'000);
  EXPECT_EQ(put(1'000), "GPU-a");
  look_.gpus[0].error = "GPU is lost";
  EXPECT_EQ(put(1'000), "GPU-b");
  EXPECT_EQ(put(4'000), "no GPU has 4000 MB free; most: GPU 1 with 3000; GPU 0: GPU is lost");
  EXPECT_EQ(put(1'000, "cuda:0"), "GPU 0: GPU is lost");
  look_.gpus[1].error = "GPU is lost";
  EXPECT_EQ(put(10), "no GPU can be used: GPU 0: GPU is lost; GPU 1: GPU is lost");
}

TEST_F(Placement, AVanishedGpuIsNoPlaceAndItsHoldersCountNowhere) {
  add_gpu(8'000);
  holders_.push_back({{"GPU-gone"}, 7'000, 0, false});
  EXPECT_EQ(put(8'000), "GPU-a");
  const Decision decision = decide("cuda:1", 10);
  EXPECT_EQ(decision.why, "there is no GPU 1: NVML tells of 1");
  EXPECT_TRUE(decision.hopeless);
}

TEST_F(Placement, NoGpuAndNoFiguresAreSaid) {
  EXPECT_EQ(put(10), "NVML tells of no GPU");
  add_gpu(0);
  EXPECT_EQ(put(10), "no GPU can be used: GPU 0: it tells no memory");
  EXPECT_EQ(put(10, "cuda:0"), "GPU-a") << "named, it needs no figures";
}

TEST_F(Placement, WithoutNvmlNothingIsChosen) {
  look_.sight = Sight::none;
  look_.at = now_ - std::chrono::hours(1);
  const Decision any = decide("cuda", 10);
  ASSERT_TRUE(any.seat);
  EXPECT_EQ(any.seat->device, "cuda");
  EXPECT_FALSE(any.seat->visible);
  EXPECT_TRUE(any.seat->gpus.empty());
  const Decision listed = decide("cuda:3,cuda:1", 10);
  ASSERT_TRUE(listed.seat);
  EXPECT_EQ(listed.seat->visible, "3,1");
  EXPECT_EQ(listed.seat->device, "cuda:0,cuda:1");
}

TEST_F(Placement, TheFirstAnswerIsWaitedForButNotForEver) {
  look_.sight = Sight::not_yet;
  EXPECT_EQ(decide("cuda", 10).why, "waits for NVML's first answer");
  EXPECT_EQ(decide("cuda:1", 10).why, "waits for NVML's first answer");
  EXPECT_FALSE(decide("cuda", 10).hopeless);
  EXPECT_TRUE(decide("", 10).seat);
  EXPECT_TRUE(decide("cpu", 10).seat);
  now_ += kStale + seconds(2);
  EXPECT_EQ(decide("cuda", 10).why, "NVML has not answered for 12 s");
  EXPECT_EQ(decide("cuda:1", 10).seat.value().visible, "1");
}

TEST_F(Placement, OldOrLostFiguresPutNobodyAnywhere) {
  add_gpu(8'000);
  now_ += kStale;
  EXPECT_TRUE(decide("cuda", 10).seat);
  now_ += seconds(1);
  EXPECT_EQ(decide("cuda", 10).why, "NVML has not answered for 11 s");
  EXPECT_EQ(decide("cuda:0", 10).seat.value().visible, "0");
  look_.sight = Sight::lost;
  look_.why = "Unknown Error";
  look_.at = now_;
  look_.gpus.clear();
  EXPECT_EQ(decide("cuda", 10).why, "NVML: Unknown Error");
  EXPECT_EQ(decide("cuda:0", 10).seat.value().visible, "0");
}

TEST_F(Placement, CpuSeesNoGpuAndUnnamedIsLeftAlone) {
  add_gpu(8'000);
  const Decision cpu = decide("cpu", 10);
  ASSERT_TRUE(cpu.seat);
  EXPECT_EQ(cpu.seat->visible, "");
  EXPECT_EQ(cpu.seat->device, "cpu");
  EXPECT_TRUE(cpu.seat->gpus.empty());
  const Decision unnamed = decide("", 10);
  ASSERT_TRUE(unnamed.seat);
  EXPECT_FALSE(unnamed.seat->visible);
  EXPECT_EQ(unnamed.seat->device, "");
}

TEST_F(Placement, AnEarlierNodesWorkerKeepsItsGpu) {
  const auto any = read_devices("cuda").value();
  const auto listed = read_devices("cuda:0,cuda:1").value();
  EXPECT_EQ(gpus_in(any, "GPU-a"), std::vector<std::string>{"GPU-a"});
  EXPECT_TRUE(gpus_in(any, "").empty());
  EXPECT_TRUE(gpus_in(any, "0,1").empty()) << "that was not the node's doing";
  EXPECT_EQ(gpus_in(listed, "GPU-a,GPU-b"), (std::vector<std::string>{"GPU-a", "GPU-b"}));
  EXPECT_TRUE(gpus_in(read_devices("").value(), "GPU-a").empty());
  add_gpu(8'000);
  add_gpu(8'000);
  EXPECT_EQ(misplaced(look_, any, "GPU-b"), "");
  EXPECT_EQ(misplaced(look_, any, ""), "");
  EXPECT_EQ(misplaced(look_, any, "GPU-x"), "its GPU GPU-x is not there any more");
  EXPECT_EQ(misplaced(look_, listed, "GPU-a,GPU-b"), "");
  EXPECT_EQ(misplaced(look_, listed, "0,1"), "");
  EXPECT_EQ(misplaced(look_, listed, "GPU-b,GPU-a"), "its GPU GPU-b has become number 1");
  look_.gpus[1].error = "GPU is lost";
  EXPECT_EQ(misplaced(look_, any, "GPU-b"), "its GPU 1: GPU is lost");
  look_.sight = Sight::not_yet;
  EXPECT_EQ(misplaced(look_, any, "GPU-x"), "") << "nobody knows better";
}

}  // namespace
}  // namespace gearbox::gpu
