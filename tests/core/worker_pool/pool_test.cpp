#include "gearbox/shm/ring.hpp"
#include "pool_fixture.hpp"

#include <algorithm>
#include <cstring>

namespace gearbox::worker_pool {

TEST_F(PoolFixture, AnswersACallWithTheBytesItSent) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const CallAnswer answer = answer_to(first(), spec_with(3000, std::byte{0x5A}));
  ASSERT_TRUE(answer.outputs.has_value()) << describe(answer.outputs.error());
  ASSERT_EQ(answer.outputs.value().size(), 1U);
  const TensorRef& output = answer.outputs.value()[0];
  EXPECT_EQ(output.spec.name, "x");
  EXPECT_EQ(output.bytes().size(), 3000U);
  EXPECT_TRUE(
      std::all_of(output.bytes().begin(), output.bytes().end(), [](std::byte b) { return b == std::byte{0x5A}; }));
}

TEST_F(PoolFixture, HandsTheOutputOfOneWorkerToAnotherWithoutACopy) {
  ASSERT_TRUE(create(2));
  ASSERT_TRUE(all_ready(2));
  const auto workers = pool_->workers();
  const CallAnswer one = answer_to(workers[0].id, spec_with(500, std::byte{0x33}));
  ASSERT_TRUE(one.outputs.has_value());
  CallSpec next;
  next.inputs = one.outputs.value();
  next.deadline = Instant::max();
  next.grant_bytes = 1000;
  ASSERT_NE(next.inputs[0].slab->arena(), shm::kInputArena);
  const CallAnswer two = answer_to(workers[1].id, next);
  ASSERT_TRUE(two.outputs.has_value()) << describe(two.outputs.error());
  EXPECT_EQ(std::memcmp(two.outputs.value()[0].bytes().data(), one.outputs.value()[0].bytes().data(), 500), 0);
}

TEST_F(PoolFixture, AWorkerHoldsABatchAndWhatIsAhead) {
  record().max_batch = 4;
  record().prefetch = 6;
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  EXPECT_EQ(pool_->workers()[0].capacity, 10U);
  EXPECT_EQ(pool_->workers()[0].max_batch, 4U);
  const CallAnswer answer = answer_to(first(), spec_with(64));
  ASSERT_TRUE(answer.outputs) << answer.outputs.error().detail;
  EXPECT_EQ(answer.batch, 1U);
  EXPECT_EQ(pool_->workers()[0].mean_batch, 1.0);
  stop();
}

TEST_F(PoolFixture, AWorkerHoldsNoMoreThanItsRingHasRoomFor) {
  record().max_batch = 1000;
  record().prefetch = 128;
  ASSERT_TRUE(create(1));
  EXPECT_EQ(pool_->workers()[0].capacity, shm::kMostCalls);
  stop();
}

TEST_F(PoolFixture, TakesManyCallsAheadAndRefusesMoreThanTheWorkersCapacity) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  std::size_t answers = 0;
  const auto count = [&](const CallAnswer& answer) { answers += answer.outputs.has_value() ? 1 : 0; };
  for (std::uint32_t i = 0; i < record().prefetch + 1; ++i) ASSERT_TRUE(pool_->call(first(), spec_with(64), count));
  const auto refused = pool_->call(first(), spec_with(64), count);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::overloaded);
  EXPECT_TRUE(until([&] { return answers == record().prefetch + 1; }));
}

TEST_F(PoolFixture, MemoryLevelsOffUnderSteadyLoad) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(answer_to(first(), spec_with(1000 + 777 * static_cast<std::uint64_t>(i % 60))).outputs) << i;
  }
  EXPECT_EQ(pool_->memory().input_used, 0U);
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(PoolFixture, AFullInputArenaIsNoSpaceAtOnceAndTheNextCallWorks) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  std::vector<SlabPtr> held;
  Outcome<SlabPtr> slab = pool_->allocate(1 << 20);
  while (slab) {
    held.push_back(slab.value());
    slab = pool_->allocate(1 << 20);
  }
  EXPECT_EQ(slab.error().code, Errc::no_space);
  EXPECT_NE(slab.error().detail.find("1048576 bytes wanted"), std::string::npos) << slab.error().detail;
  EXPECT_EQ(held.size(), 8U);
  held.clear();
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
}

TEST_F(PoolFixture, AnArenaThatCannotBeAllocatedIsNoSpaceAtCreation) {
  config_.node.limits.input_arena_bytes = std::uint64_t{1} << 50;
  const auto created = create(1);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Errc::no_space);
  EXPECT_NE(created.error().detail.find("1125899906842624 bytes wanted"), std::string::npos) << created.error().detail;
}

TEST_F(PoolFixture, AResultThatDoesNotFitIsAnErrorOfThatCallOnly) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  CallSpec large = spec_with(100'000);
  large.grant_bytes = 1000;
  const CallAnswer answer = answer_to(first(), large);
  ASSERT_FALSE(answer.outputs);
  EXPECT_EQ(answer.outputs.error().code, Errc::result_too_large);
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
}

TEST_F(PoolFixture, AModelsFailureBringsItsReason) {
  ASSERT_TRUE(create(1, {"--do", "fail"}));
  ASSERT_TRUE(all_ready(1));
  const CallAnswer answer = answer_to(first(), spec_with(64));
  ASSERT_FALSE(answer.outputs);
  EXPECT_EQ(answer.outputs.error().code, Errc::model_failed);
  EXPECT_EQ(answer.outputs.error().detail, "ValueError: as it was told");
  EXPECT_EQ(pool_->workers()[0].failures, 1U);
}

TEST_F(PoolFixture, ACancelledCallIsAnsweredAtOnceAndItsLateAnswerReachesNobody) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  std::vector<Errc> heard;
  auto call = pool_->call(first(), spec_with(64), [&](const CallAnswer& answer) {
    heard.push_back(answer.outputs ? Errc::internal : answer.outputs.error().code);
  });
  ASSERT_TRUE(call);
  pool_->cancel(call.value());
  pool_->cancel(call.value());
  ASSERT_TRUE(until([&] { return !heard.empty() && pool_->workers()[0].running == 0; }));
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
  EXPECT_EQ(heard, std::vector<Errc>{Errc::cancelled});
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(PoolFixture, GivesEachWorkerItsCommandLineAndThreads) {
  record().threads = 3;
  config::EnvConfig env;
  env.python = "onnx/bin/python";
  config_.envs["none"] = env;
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const Launcher::Order& order = launcher_->orders.at(0);
  const std::vector<std::string> expected = {ECHO_WORKER,
                                             "--model",
                                             root_.string(),
                                             "--env",
                                             "none",
                                             "--python",
                                             (root_ / "envs/onnx/bin/python").string(),
                                             "--node",
                                             (root_ / "run/workers.sock").string(),
                                             "--slot",
                                             "1",
                                             "--threads",
                                             "3",
                                             "--origin"};
  ASSERT_EQ(order.argv.size(), expected.size() + 3);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), order.argv.begin()));
  EXPECT_EQ(order.argv[expected.size()].size(), 16U);  // a number of this node's life
  EXPECT_EQ(order.argv[expected.size() + 1], "--reattach-ms");
  EXPECT_EQ(order.argv[expected.size() + 2], "5000");
  EXPECT_EQ(order.role, "worker-1");
  EXPECT_NE(std::find(order.env.begin(), order.env.end(), "OMP_NUM_THREADS=3"), order.env.end());
}

TEST_F(PoolFixture, RunServesCallsFromItsOwnLoop) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  int left = 2000;
  std::function<void()> next = [&] {
    auto call = pool_->call(first(), spec_with(64), [&](const CallAnswer& answer) {
      ASSERT_TRUE(answer.outputs);
      if (--left == 0) return io_.stop();
      next();
    });
    ASSERT_TRUE(call);
  };
  next();
  pool_->run();
  EXPECT_EQ(left, 0);
  io_.restart();
}

TEST_F(PoolFixture, AnswersThatAreGatheredLeaveTheWorkersArenaWhileTheirOwnCallsHaveRoom) {
  record().max_output_bytes = 1 << 20;
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const auto arena_of = [&](std::uint64_t bytes, bool gathered) {
    CallSpec spec = spec_with(bytes, std::byte{9});
    spec.gathered = gathered;
    const CallAnswer answer = answer_to(first(), std::move(spec));
    EXPECT_TRUE(answer.outputs) << (answer.outputs ? "" : describe(answer.outputs.error()));
    if (!answer.outputs) return shm::ArenaId{~0U};
    const TensorRef& output = answer.outputs.value().at(0);
    EXPECT_EQ(output.spec.bytes, bytes);
    for (const std::byte byte : output.bytes()) EXPECT_EQ(byte, std::byte{9});
    return output.slab->arena();
  };
  EXPECT_NE(arena_of(1000, false), shm::kInputArena);
  EXPECT_EQ(arena_of(1000, true), shm::kInputArena);
  EXPECT_EQ(arena_of(0, true), shm::kInputArena);
  EXPECT_NE(arena_of(300'000, true), shm::kInputArena) << "too much to copy";
  std::vector<SlabPtr> others;
  while (auto slab = pool_->allocate(64 << 10)) {
    others.push_back(std::move(slab).value());
    if (pool_->memory().input_bytes - pool_->memory().input_used < 256U << 10) break;
  }
  EXPECT_NE(arena_of(1000, true), shm::kInputArena) << "what is left is for calls";
}

TEST_F(PoolFixture, StopsAlthoughNoLaunchIsEverAnswered) {
  timing_.stop_grace = milliseconds(50);
  const auto silent = std::make_shared<SilentLauncher>();
  ASSERT_TRUE(create(2, {}, silent));
  ASSERT_EQ(silent->waiting.size(), 2U);
  bool stopped = false;
  pool_->stop([&] { stopped = true; });
  EXPECT_TRUE(silent->cancelled);
  EXPECT_TRUE(until([&] { return stopped; }));
  // One that comes all the same is stopped again.
  silent->waiting[0](Outcome<int>(::getpid()));
  EXPECT_EQ(silent->stopped, std::vector<int>{::getpid()});
}

TEST_F(PoolFixture, StopEndsEveryWorkerAndRemovesTheSocket) {
  ASSERT_TRUE(create(3));
  ASSERT_TRUE(all_ready(3));
  std::vector<int> pids;
  for (const WorkerView& worker : pool_->workers()) pids.push_back(worker.pid);
  stop();
  for (const int pid : pids) EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_FALSE(std::filesystem::exists(root_ / "run/workers.sock"));
}

}  // namespace gearbox::worker_pool
