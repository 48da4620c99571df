// Cancelled calls: what waits is not run, what runs is left to end, or ends with its worker when the record says so.
#include "pool_fixture.hpp"
#include "support/gate.hpp"

#include <csignal>

namespace gearbox::worker_pool {

namespace {
class Cancelling : public PoolFixture {
 protected:
  /// Hands a call over; what is heard of it goes to `heard`.
  Outcome<WorkerPool::CallId> call(std::vector<CallAnswer>& heard, std::byte first = std::byte{0}) {
    return pool_->call(this->first(), spec_with(64, first), [&heard](CallAnswer answer) { heard.push_back(answer); });
  }
  bool is_replaced(WorkerId before) {
    return until([&] {
      const auto workers = pool_->workers();
      return workers[0].id != before && workers[0].state == "ready";
    });
  }
  bool has_begun() {
    return until([&] { return gate_.is_reached(); });
  }
  /// Five times the time that a cancelled call gets before its worker is replaced. Used where that must not happen:
  /// then there is no event to wait for.
  void let_the_grace_pass() {
    const Instant end = Clock::now() + milliseconds(100);
    until([&] { return Clock::now() >= end; });
  }

  test_support::Gate gate_{root_};
};
constexpr std::byte kHeld{test_support::kHeld};
constexpr std::byte kAnswered{test_support::kAnswered};
}  // namespace

TEST_F(Cancelling, ARunningCallIsLeftToEndAndItsAnswerThrownAway) {
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId before = first();
  std::vector<CallAnswer> heard;
  const auto running = call(heard, kHeld);
  ASSERT_TRUE(running);
  ASSERT_TRUE(has_begun());
  pool_->cancel(running.value());
  ASSERT_TRUE(until([&] { return heard.size() == 1; }));
  EXPECT_EQ(heard[0].outputs.error().code, Errc::cancelled);
  EXPECT_EQ(pool_->workers()[0].running, 1U) << "its slabs are in use until it ends";
  gate_.open();
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; }));
  EXPECT_EQ(heard.size(), 1U);
  EXPECT_EQ(first(), before);
}

TEST_F(Cancelling, ARunningCallEndsWithItsWorkerWhenTheRecordSaysSoAndTheOthersAreNotToBlame) {
  record().cancel_by_restart = true;
  timing_.backoff_first = milliseconds(60'000);  // it is started again without that
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId before = first();
  std::vector<CallAnswer> heard;
  std::vector<CallAnswer> others;
  const auto running = call(heard, kHeld);
  ASSERT_TRUE(running);
  ASSERT_TRUE(has_begun());
  ASSERT_TRUE(call(others));
  ASSERT_TRUE(call(others));
  pool_->cancel(running.value());
  ASSERT_TRUE(until([&] { return heard.size() == 1 && others.size() == 2; }));
  EXPECT_EQ(heard[0].outputs.error().code, Errc::cancelled);
  for (const CallAnswer& other : others) {
    ASSERT_FALSE(other.outputs);
    EXPECT_EQ(other.outputs.error().code, Errc::worker_lost);
    EXPECT_FALSE(other.begun);
  }
  ASSERT_TRUE(is_replaced(before));
  EXPECT_EQ(pool_->ended().cancelled, 1U);
  EXPECT_EQ(pool_->workers()[0].restarts, 1U);
}

TEST_F(Cancelling, ManyOfThemInARowAreNoBadStarts) {
  record().cancel_by_restart = true;
  timing_.start_tries = 2;
  timing_.backoff_first = milliseconds(60'000);
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(all_ready(1)) << i;
    std::vector<CallAnswer> heard;
    const WorkerId before = first();
    const auto running = call(heard, kHeld);
    ASSERT_TRUE(running);
    ASSERT_TRUE(has_begun()) << i;
    pool_->cancel(running.value());
    ASSERT_TRUE(is_replaced(before)) << i;
    gate_.open();
  }
  EXPECT_EQ(pool_->ended().cancelled, 4U);
}

TEST_F(Cancelling, ACallThatWasAnsweredMeanwhileKillsNobody) {
  record().cancel_by_restart = true;
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId before = first();
  std::vector<CallAnswer> heard;
  // Its answer lies in the ring, not looked at yet, when it is cancelled.
  const auto running = call(heard, kAnswered);
  ASSERT_TRUE(running);
  const Instant limit = Clock::now() + seconds(20);
  while (!gate_.is_reached() && Clock::now() < limit) {
  }
  ASSERT_TRUE(gate_.is_reached());
  pool_->cancel(running.value());
  let_the_grace_pass();
  gate_.open();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].outputs.error().code, Errc::cancelled);
  // And one that had been answered before.
  std::vector<CallAnswer> again;
  const auto done = call(again);
  ASSERT_TRUE(done);
  ASSERT_TRUE(until([&] { return again.size() == 1; }));
  pool_->cancel(done.value());
  let_the_grace_pass();
  EXPECT_EQ(again.size(), 1U);
  EXPECT_EQ(first(), before);
  EXPECT_EQ(pool_->ended().cancelled, 0U);
}

TEST_F(Cancelling, ACallThatWaitsInTheRingKillsNobody) {
  record().cancel_by_restart = true;
  ASSERT_TRUE(create(1, {"--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId before = first();
  ::kill(pool_->workers()[0].pid, SIGSTOP);
  std::vector<CallAnswer> heard;
  const auto waiting = call(heard);
  ASSERT_TRUE(waiting);
  pool_->cancel(waiting.value());
  let_the_grace_pass();
  EXPECT_EQ(first(), before);
  ::kill(pool_->workers()[0].pid, SIGCONT);
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; }));
  EXPECT_EQ(first(), before);
  EXPECT_EQ(pool_->ended().cancelled, 0U);
}

}  // namespace gearbox::worker_pool
