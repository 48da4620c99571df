// Frozen, stuck and growing workers: when they are noticed, what becomes of their calls, and who is left alone.
#include "pool_fixture.hpp"

#include <csignal>
#include <thread>
#include <utility>

#include "support/gate.hpp"

namespace gearbox::worker_pool {

namespace {
/// "Within two seconds", and what a loaded machine may add to that.
constexpr milliseconds kSeen{2500};

class Supervision : public PoolFixture {
 protected:
  /// The node's loop for so long.
  void run_for(milliseconds time) {
    const Instant end = Clock::now() + time;
    until([&] { return Clock::now() >= end; });
  }
  int pid(std::size_t worker = 0) { return pool_->workers()[worker].pid; }
};
}  // namespace

TEST_F(Supervision, AnIdleWorkerThatIsFrozenIsSeenAndReplaced) {
  timing_ = WorkerPool::Timing{};  // as in a real node
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const WorkerId frozen = first();
  const Instant began = Clock::now();
  ::kill(pid(), SIGSTOP);
  ASSERT_TRUE(state_is("suspect"));
  EXPECT_TRUE(pool_->ready("echo", "1").empty());
  ASSERT_TRUE(until([&] { return pool_->workers()[0].state == "gone"; }));
  EXPECT_LT(Clock::now() - began, kSeen);
  EXPECT_EQ(pool_->workers()[0].reason, "it gave no sign of life for 1400 ms");
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(first(), frozen);
  EXPECT_EQ(pool_->ended().frozen, 1U);
}

TEST_F(Supervision, TheCallsOfAFrozenWorkerEndAtOnceNotAtTheirLimit) {
  timing_ = WorkerPool::Timing{};
  record().prefetch = 9;
  ASSERT_TRUE(create(1, {"--do", "hang"}));
  ASSERT_TRUE(all_ready(1));
  std::vector<CallAnswer> heard;
  const auto hear = [&](CallAnswer answer) { heard.push_back(std::move(answer)); };
  ASSERT_TRUE(pool_->call(first(), spec_with(64), hear));
  run_for(milliseconds(300));  // it has taken that one
  ASSERT_TRUE(pool_->call(first(), spec_with(64), hear));
  ::kill(pid(), SIGSTOP);
  const Instant began = Clock::now();
  ASSERT_TRUE(until([&] { return heard.size() == 2; }));
  EXPECT_LT(Clock::now() - began, kSeen);
  // The one that it had not begun was free as soon as it was suspected.
  EXPECT_FALSE(heard[0].begun);
  EXPECT_TRUE(heard[1].begun);
  for (const CallAnswer& answer : heard) {
    ASSERT_FALSE(answer.outputs);
    EXPECT_EQ(answer.outputs.error().code, Errc::worker_lost);
  }
  EXPECT_TRUE(all_ready(1));
}

TEST_F(Supervision, AWorkerThatGivesNoSignOfLifeIsEndedAlthoughItAnswers) {
  ASSERT_TRUE(create(1, {"--do", "mute"}));
  ASSERT_TRUE(until([&] { return pool_->ended().frozen > 0; }));
}

TEST_F(Supervision, ABusyWorkerIsNotADeadOne) {
  timing_.frozen = milliseconds(800);
  ASSERT_TRUE(create(1, {"--do", "hang"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId busy = first();
  bool heard = false;
  ASSERT_TRUE(pool_->call(busy, spec_with(64), [&](const CallAnswer&) { heard = true; }));
  run_for(milliseconds(2500));  // three times what a frozen one has, six times `silent`
  EXPECT_FALSE(heard);
  EXPECT_EQ(first(), busy);
  EXPECT_EQ(pool_->workers()[0].state, "ready");
}

TEST_F(Supervision, AWorkerThatBeatsButDoesNothingIsSuspectThenKilled) {
  ASSERT_TRUE(create(1, {"--do", "deaf"}));
  ASSERT_TRUE(all_ready(1));
  std::optional<CallAnswer> heard;
  ASSERT_TRUE(pool_->call(first(), spec_with(64), [&](CallAnswer answer) { heard = std::move(answer); }));
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  EXPECT_FALSE(heard->begun);
  EXPECT_EQ(pool_->workers()[0].state, "suspect");
  ASSERT_TRUE(until([&] { return pool_->ended().stuck == 1; }));
  EXPECT_EQ(pool_->workers()[0].reason, "it did not take a call for 400 ms");
  EXPECT_TRUE(all_ready(1));
}

TEST_F(Supervision, ANodeThatStoodStillEndsNobodyForIt) {
  timing_.silent = milliseconds(1000);
  ASSERT_TRUE(create(2));
  ASSERT_TRUE(all_ready(2));
  const auto before = pool_->workers();
  for (const WorkerView& worker : before) ::kill(worker.pid, SIGSTOP);
  run_for(milliseconds(150));                                       // their last beat is seen, a ping is on its way
  std::this_thread::sleep_for(timing_.frozen + milliseconds(300));  // as the whole host does, this process included
  run_for(milliseconds(150));                                       // the workers wake up after the node
  for (const WorkerView& worker : before) ::kill(worker.pid, SIGCONT);
  ASSERT_TRUE(all_ready(2));
  run_for(milliseconds(500));
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(pool_->workers()[i].id, before[i].id);
  EXPECT_EQ(pool_->ended().frozen + pool_->ended().stuck, 0U);
}

TEST_F(Supervision, WhatASlowWorkerHasNotBegunIsHandedBack) {
  record().call_timeout_ms = 500;
  ASSERT_TRUE(create(1, {"--do", "hang"}));
  ASSERT_TRUE(all_ready(1));
  ASSERT_TRUE(pool_->call(first(), spec_with(64), [](const CallAnswer&) {}));
  run_for(milliseconds(200));
  std::optional<CallAnswer> heard;
  std::string state;
  ASSERT_TRUE(pool_->call(first(), spec_with(64), [&](CallAnswer answer) {
    heard = std::move(answer);
    state = pool_->workers()[0].state;
  }));
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  EXPECT_FALSE(heard->begun);
  EXPECT_EQ(state, "suspect");  // not gone yet: it still works on the first
}

TEST_F(Supervision, AWorkerThatGrowsTooLargeEndsAfterItsCallAndIsStartedAgain) {
  memory_limit_ = 64U << 20;
  ASSERT_TRUE(create(1, {"--do", "grow"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId large = first();
  std::string reason;
  while (pool_->ended().outgrown == 0) {
    if (pool_->ready("echo", "1").empty()) {
      run_for(milliseconds(10));
      continue;
    }
    const CallAnswer answer = answer_to(first(), spec_with(64));
    // Every call is answered, or it never began.
    ASSERT_TRUE(answer.outputs || !answer.begun) << describe(answer.outputs.error());
    run_for(milliseconds(100));
  }
  ASSERT_TRUE(until([&] { return first() != large; }));
  ASSERT_TRUE(all_ready(1));
  ASSERT_TRUE(until([&] { return pool_->workers()[0].memory_bytes > 0; }));
  EXPECT_LT(pool_->workers()[0].memory_bytes, memory_limit_);
  EXPECT_EQ(pool_->ended().outgrown, 1U);
  EXPECT_EQ(pool_->workers()[0].restarts, 1U);
}

TEST_F(Supervision, AWorkerThatGrewTooLargeServesUntilAnotherOneIsReady) {
  NEEDS_PLAIN_MEMORY();
  memory_limit_ = 90U << 20;  // four calls of 24 MiB are above it, and below a quarter more
  ASSERT_TRUE(create(1, {"--do", "grow"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId large = first();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(answer_to(large, spec_with(64)).outputs);
  std::size_t fewest = 1;
  std::size_t most = 1;
  std::string reason;
  ASSERT_TRUE(until([&] {
    const auto workers = pool_->workers();
    const auto still =
        std::find_if(workers.begin(), workers.end(), [&](const WorkerView& worker) { return worker.id == large; });
    fewest = std::min(fewest, pool_->ready("echo", "1").size());
    most = std::max(most, workers.size());
    if (reason.empty() && still != workers.end() && pool_->ended().outgrown == 1) reason = still->reason;
    return still == workers.end();
  }));
  EXPECT_EQ(fewest, 1U) << "there was always one to serve";
  EXPECT_EQ(most, 2U);
  EXPECT_NE(reason.find("MB, memory_limit_mb is 90"), std::string::npos) << reason;
  EXPECT_EQ(pool_->ended().outgrown, 1U);
  ASSERT_EQ(pool_->workers().size(), 1U);
  EXPECT_EQ(pool_->workers()[0].restarts, 1U);
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
}

TEST_F(Supervision, AWorkerThatIsReplacedForItsSizeEndsItsCallFirst) {
  test_support::Gate gate(root_);
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId large = first();
  std::optional<CallAnswer> heard;
  ASSERT_TRUE(pool_->call(large, spec_with(64, std::byte{test_support::kHeld}),
                          [&](CallAnswer answer) { heard = std::move(answer); }));
  // One that has just started still grows: a quarter above its limit it would be ended at once.
  std::uint64_t bytes = 0;
  Instant since{};
  ASSERT_TRUE(until([&] {
    const Instant now = Clock::now();
    if (!gate.is_reached() || pool_->workers()[0].memory_bytes != bytes) since = now;
    bytes = pool_->workers()[0].memory_bytes;
    return bytes > 0 && now - since > 5 * timing_.memory_look;
  }));
  config_.workers[0].memory_limit_bytes = bytes / 10 * 9;
  pool_->apply(std::make_shared<const config::Config>(config_));
  ASSERT_TRUE(until([&] { return pool_->ended().outgrown == 1; }));
  config_.workers[0].memory_limit_bytes = 0;  // the next one shall stay
  pool_->apply(std::make_shared<const config::Config>(config_));
  ASSERT_TRUE(until([&] { return pool_->workers()[0].state == "draining"; }));
  EXPECT_EQ(first(), large);
  ASSERT_EQ(pool_->ready("echo", "1").size(), 1U);
  EXPECT_FALSE(heard.has_value());
  gate.open();
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  EXPECT_TRUE(heard->outputs);
  EXPECT_TRUE(until([&] { return pool_->workers().size() == 1; }));
  EXPECT_EQ(pool_->ready("echo", "1").size(), 1U);
}

TEST_F(Supervision, AnotherLimitIsToldToWhoeverKeepsIt) {
  memory_limit_ = 1U << 30;
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  EXPECT_EQ(launcher_->orders.at(0).memory_limit, 1U << 30);
  const int process = pid();
  config_.workers[0].memory_limit_bytes = 2U << 30;
  pool_->apply(std::make_shared<const config::Config>(config_));
  pool_->apply(std::make_shared<const config::Config>(config_));  // nothing new
  const std::vector<std::pair<int, std::uint64_t>> told{{process, 2U << 30}};
  EXPECT_EQ(launcher_->limits, told);
}

TEST_F(Supervision, AWorkerThatGrowsTooLargeInOneCallIsKilled) {
  memory_limit_ = 16U << 20;
  timing_.leak_grace = milliseconds(200);
  ASSERT_TRUE(create(1, {"--do", "swell"}));
  ASSERT_TRUE(all_ready(1));
  const CallAnswer answer = answer_to(first(), spec_with(64));
  ASSERT_FALSE(answer.outputs);
  EXPECT_EQ(answer.outputs.error().code, Errc::worker_lost);
  EXPECT_TRUE(answer.begun);
  EXPECT_NE(answer.outputs.error().detail.find("MB, memory_limit_mb is 16"), std::string::npos)
      << answer.outputs.error().detail;
  EXPECT_TRUE(all_ready(1));
}

TEST_F(Supervision, AWorkerThatIsBeingReplacedForItsSizeAndGrowsOnInItsCallIsKilled) {
  NEEDS_PLAIN_MEMORY();
  memory_limit_ = 90U << 20;  // 96 MiB are above it, and below a quarter more
  timing_.leak_grace = milliseconds(200);
  test_support::Gate gate(root_);
  ASSERT_TRUE(create(1, {"--do", "swell_on"}));
  ASSERT_TRUE(all_ready(1));
  std::optional<CallAnswer> heard;
  ASSERT_TRUE(pool_->call(first(), spec_with(64), [&](CallAnswer answer) { heard = std::move(answer); }));
  // Another one has taken over; what is left of this one is its call.
  ASSERT_TRUE(until([&] { return gate.is_reached() && pool_->workers()[0].state == "draining"; }));
  EXPECT_FALSE(heard.has_value());
  gate.open();
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  ASSERT_FALSE(heard->outputs);
  EXPECT_EQ(heard->outputs.error().code, Errc::worker_lost);
  EXPECT_TRUE(heard->begun);
  EXPECT_NE(heard->outputs.error().detail.find("MB, memory_limit_mb is 90"), std::string::npos)
      << heard->outputs.error().detail;
  EXPECT_EQ(pool_->ended().outgrown, 1U) << "counted once";
  EXPECT_TRUE(until([&] { return pool_->workers().size() == 1; }));
  EXPECT_EQ(pool_->ready("echo", "1").size(), 1U);
}

TEST_F(Supervision, AWorkerThatLeaksIsSeenWithinTwoSeconds) {
  timing_ = WorkerPool::Timing{};  // as in a real node
  memory_limit_ = 90U << 20;       // four calls of 24 MiB are above it, and below a quarter more
  ASSERT_TRUE(create(1, {"--do", "grow"}));
  ASSERT_TRUE(all_ready(1));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(answer_to(first(), spec_with(64)).outputs);
  // Only the time in which this loop ran is counted: a machine that is busy elsewhere has nothing to do with it.
  constexpr Clock::duration kLongestTurn = milliseconds(20);
  Clock::duration ran{0};
  Instant last = Clock::now();
  ASSERT_TRUE(until([&] {
    const Instant now = Clock::now();
    ran += std::min(now - std::exchange(last, now), kLongestTurn);
    return pool_->ended().outgrown == 1;
  }));
  EXPECT_LE(ran, seconds(2));
  // It is the first look that shows the memory.
  EXPECT_LE(ran, timing_.memory_look + timing_.heartbeat + kLongestTurn);
}

TEST_F(Supervision, AModelThatIsTooLargeFromTheStartFailsWithThatReason) {
  memory_limit_ = 1;
  timing_.start_tries = 2;
  ASSERT_TRUE(create(1, {"--do", "never_attach"}));
  ASSERT_TRUE(state_is("failed"));
  EXPECT_NE(pool_->workers()[0].reason.find("memory_limit_mb is"), std::string::npos) << pool_->workers()[0].reason;
}

}  // namespace gearbox::worker_pool
