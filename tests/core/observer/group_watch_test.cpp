#include "observer/group_watch.hpp"

#include <gtest/gtest.h>

#include <map>

namespace gearbox::observer {
namespace {

constexpr milliseconds kStale{3'000};

class GroupWatchTest : public ::testing::Test {
 protected:
  GroupWatchTest() {
    status_.phase = "running";
    status_.gear = 2;
    status_.epoch = 4;
    status_.ranks = {{0, 10, 30, 100}, {1, 11, 80, 100}};
    status_.running = 5;
    processes_[10] = {1, std::chrono::seconds(5), 1000};
    processes_[11] = {1, std::chrono::seconds(9), 2000};
  }
  void hear(milliseconds later) {
    now_ += later;
    watch_.heard(
        status_,
        [this](std::int64_t pid) {
          const auto found = processes_.find(pid);
          return found == processes_.end() ? std::nullopt : std::optional(found->second);
        },
        now_);
  }
  gear_facts::GroupFacts facts() const { return watch_.facts(now_, kStale); }

  GroupWatch watch_{"story-2"};
  gear_facts::EngineStatus status_;
  std::map<std::int64_t, ProcessFigures> processes_;
  Instant now_ = Instant() + seconds(100);
};

TEST_F(GroupWatchTest, BeforeTheFirstAnswerItIsStale) {
  EXPECT_TRUE(facts().stale);
  EXPECT_EQ(facts().name, "story-2");
  EXPECT_EQ(facts().age_ms, -1);
}

TEST_F(GroupWatchTest, FiguresAreThoseOfEngineAndProcesses) {
  hear(seconds(1));
  processes_[10].cpu += milliseconds(500);
  processes_[11].cpu += milliseconds(1500);  // two threads at work: it is busy, no more
  hear(seconds(1));
  const auto seen = facts();
  EXPECT_FALSE(seen.stale);
  EXPECT_EQ(seen.model, "story") << "where the engine does not tell";
  EXPECT_EQ(seen.ranks, 2U);
  EXPECT_EQ(seen.plan, "tensor ×2");
  EXPECT_EQ(seen.memory_bytes, 3000);
  EXPECT_DOUBLE_EQ(seen.memory_pressure, 0.8) << "of the fullest rank";
  EXPECT_DOUBLE_EQ(seen.busy_mean, 0.75);
  EXPECT_EQ(seen.samples, 1U) << "the first look has nothing to compare with";
}

TEST_F(GroupWatchTest, AnotherProcessUnderThePidIsNotComparedWith) {
  hear(seconds(1));
  processes_[10] = {2, std::chrono::seconds(50), 1000};
  processes_.erase(11);
  hear(seconds(1));
  EXPECT_LT(facts().busy_mean, 0);
  EXPECT_EQ(facts().memory_bytes, 1000);
}

TEST_F(GroupWatchTest, SilenceMakesItStaleAtOnceAndAnAnswerFresh) {
  hear(seconds(1));
  watch_.not_heard("its engine: timeout");
  EXPECT_TRUE(facts().stale);
  EXPECT_EQ(facts().problem, "its engine: timeout");
  EXPECT_EQ(facts().running, 5U) << "what was known is still told";
  hear(seconds(1));
  EXPECT_FALSE(facts().stale);
  now_ += kStale + milliseconds(1);
  EXPECT_TRUE(facts().stale) << "an observer that stands still tells nothing fresh";
  EXPECT_EQ(facts().age_ms, kStale.count() + 1);
}

TEST_F(GroupWatchTest, ANoOfTheEngineIsNoFigure) {
  hear(seconds(1));
  status_.ok = false;
  status_.why = "the group is ending";
  hear(seconds(1));
  EXPECT_TRUE(facts().stale);
  EXPECT_EQ(facts().problem, "its engine says: the group is ending");
}

TEST_F(GroupWatchTest, CachedPositionsFollowFromTheShape) {
  hear(seconds(1));
  EXPECT_EQ(facts().cached_tokens, 110U) << "units, while nobody knows what a unit is";
  status_.shape = {.layers = 5, .width = 64, .heads = 8, .kv_heads = 2, .head_width = 8, .parameters = 9};
  hear(seconds(1));
  EXPECT_EQ(facts().cached_tokens, 110U * 16 / 10);
}

TEST(ModelOfName, IsTheNameWithoutItsNumber) {
  EXPECT_EQ(model_of_name("story-2"), "story");
  EXPECT_EQ(model_of_name("story.1"), "story");
  EXPECT_EQ(model_of_name("story"), "story");
  EXPECT_EQ(model_of_name("llama-7b-0"), "llama-7b");
}

}  // namespace
}  // namespace gearbox::observer
