#include "sinks/portions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sinks/held.hpp"

namespace gearbox::sinks {
namespace {

using Ids = std::vector<std::int64_t>;

std::vector<Row> rows(std::int64_t from, std::int64_t to) {
  std::vector<Row> all;
  for (std::int64_t id = from; id < to; ++id) all.push_back({id, "{}"});
  return all;
}

class PortionsTest : public ::testing::Test {
 protected:
  Ids given() const {
    Ids ids;
    const Portions::Portion portion = portions_.next();
    for (std::size_t i = 0; i < portion.count; ++i) ids.push_back(portions_.row(portion.first + i).id);
    return ids;
  }
  /// Delivers the batch to a receiver that puts off all that has one of `bad` in it, at most `tries` times.
  int deliver(const std::set<std::int64_t>& bad, int tries = 1000) {
    int made = 0;
    for (; made < tries && !portions_.empty(); ++made) {
      const Ids ids = given();
      EXPECT_FALSE(ids.empty());
      const Portions::Portion portion = portions_.next();
      const bool off = std::any_of(ids.begin(), ids.end(), [&](std::int64_t id) { return bad.contains(id); });
      if (off) {
        portions_.put_off(portion, true);
        continue;
      }
      for (const Row& row : portions_.take(portion)) done_.push_back(row.id);
      if (const auto guilty = portions_.take_guilty()) guilty_.push_back(guilty->id);
    }
    return made;
  }
  Portions portions_;
  Ids done_, guilty_;
};

TEST_F(PortionsTest, AllAtOnceWhileThatGoesWell) {
  portions_.begin(rows(0, 64), 64);
  EXPECT_EQ(deliver({}), 1);
  portions_.begin(rows(64, 128), 64);
  EXPECT_EQ(deliver({}), 1);
  EXPECT_EQ(done_.size(), 128U);
}

TEST_F(PortionsTest, TheOneThatIsToBlameStandsAsideAndTheOthersGetThrough) {
  for (const std::int64_t bad : {0, 1, 31, 62}) {
    done_.clear();
    guilty_.clear();
    portions_ = {};
    portions_.begin(rows(0, 64), 64);
    EXPECT_LT(deliver({bad}), 40) << bad;
    EXPECT_EQ(guilty_, Ids{bad});
    EXPECT_EQ(done_.size(), 63U) << bad;
  }
}

TEST_F(PortionsTest, SeveralInARowAreFoundOneByOne) {
  portions_.begin(rows(0, 10), 64);
  deliver({0, 1, 2, 7});
  EXPECT_EQ(guilty_, (Ids{0, 1, 2, 7}));
  EXPECT_EQ(done_.size(), 6U);
}

TEST_F(PortionsTest, NobodyIsToBlameWhileNothingGetsThrough) {
  portions_.begin(rows(0, 5), 5);
  EXPECT_EQ(deliver({0, 1, 2, 3, 4}, 200), 200);
  EXPECT_TRUE(guilty_.empty());
  portions_.begin(rows(0, 5), 5);
  while (given() != Ids{0}) portions_.put_off(portions_.next(), true);
  deliver({});
  EXPECT_EQ(done_, (Ids{0, 1, 2, 3, 4})) << "in their order when it is back";
  EXPECT_TRUE(guilty_.empty());
}

TEST_F(PortionsTest, AReceiverThatAsksForAPauseBlamesNoEvent) {
  portions_.begin(rows(0, 5), 5);
  for (int i = 0; i < 50; ++i) portions_.put_off(portions_.next(), false);
  EXPECT_EQ(given().size(), 5U);
  EXPECT_FALSE(portions_.wants_more());
}

TEST_F(PortionsTest, TheLastOneAloneAsksForOthersToCompareWith) {
  portions_.begin(rows(0, 1), 64);
  for (std::size_t i = 0; i < Portions::kTriesWhole; ++i) {
    EXPECT_FALSE(portions_.wants_more());
    portions_.put_off(portions_.next(), true);
  }
  EXPECT_TRUE(portions_.wants_more());
  portions_.begin(rows(0, 3), 64);
  deliver({0});
  EXPECT_EQ(guilty_, Ids{0}) << "what was known of it holds for the next batch";
  EXPECT_EQ(done_, (Ids{1, 2}));
}

TEST_F(PortionsTest, WhatIsRefusedAsAWholeIsGivenSingly) {
  portions_.begin(rows(0, 4), 4);
  portions_.refused(portions_.next());
  for (std::int64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(given(), Ids{id});
    portions_.take(portions_.next());
  }
  EXPECT_TRUE(portions_.empty());
}

TEST_F(PortionsTest, PortionsGrowAgain) {
  portions_.begin(rows(0, 64), 64);
  for (int i = 0; i < 3; ++i) portions_.put_off(portions_.next(), true);
  EXPECT_EQ(given().size(), 1U);
  EXPECT_EQ(deliver({}), 7) << "1, 2, 4, 8, 16, 32 and the one that is left";
}

TEST(SinkHeld, AreTriedEverMoreSeldomAndTheOldestGivesWay) {
  Held held;
  const Instant begun{};
  const milliseconds pause{100};
  for (std::int64_t id = 0; id < static_cast<std::int64_t>(Held::kMost); ++id) {
    EXPECT_FALSE(held.add({id, "{}"}, "why", pause, after(begun, milliseconds{id})));
  }
  ASSERT_NE(held.first(), nullptr);
  EXPECT_EQ(held.first()->row.id, 0);
  EXPECT_EQ(held.first()->due, after(begun, pause));
  held.put_off("still", milliseconds{0}, milliseconds{150}, begun);
  EXPECT_EQ(held.first()->row.id, 1) << "the next one's turn";
  held.put_off("asked", milliseconds{140}, milliseconds{150}, begun);
  const auto gone = held.add({99, "{}"}, "why", pause, begun);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->row.id, 0);
  EXPECT_EQ(gone->reason, "still");
  EXPECT_EQ(gone->due, after(begun, milliseconds{150})) << "at most that";
  EXPECT_EQ(held.take_first().id, 99);
  held.hurry(after(begun, milliseconds{1}));
  EXPECT_EQ(held.first()->due, after(begun, milliseconds{1}));
  EXPECT_EQ(held.size(), Held::kMost - 1);
}

}  // namespace
}  // namespace gearbox::sinks
