#include "executor/ledger.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "support/temp_dir.hpp"

namespace gearbox::executor {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() { open(); }
  void open() {
    auto opened = Ledger::open(folder_.path() / "gears");
    ASSERT_TRUE(opened) << opened.error().detail;
    ledger_.emplace(std::move(opened).value());
  }
  static Pending order(std::uint64_t number, std::uint8_t from, std::uint8_t to) {
    Pending made;
    made.number = number;
    made.from = from;
    made.to = to;
    made.term = 3;
    made.epoch = 8;
    made.origin = "scheduler";
    made.decision = "price: cheaper";
    return made;
  }
  void over(const Pending& order, bool ok, const Moment& at) {
    Entry entry;
    entry.order = order;
    entry.group = "story";
    entry.ok = ok;
    entry.why = ok ? "" : "no";
    entry.report["pause_ms"] = 17.5;
    ASSERT_TRUE(ledger_->over(std::move(entry), at));
  }
  std::filesystem::path record() const { return folder_.path() / "gears/executor.json"; }

  const testing::TempDir folder_;
  std::optional<Ledger> ledger_;
  Moment now_{"boot-1", 1'000'000, 50'000'000};
};

TEST_F(LedgerTest, TheHighestTermOutlivesThis) {
  ASSERT_TRUE(ledger_->see(5));
  ASSERT_TRUE(ledger_->see(4));
  open();
  EXPECT_EQ(ledger_->term(), 5U);
}

TEST_F(LedgerTest, AShiftThatIsUnderWayIsKnownToTheNextOne) {
  Kept kept;
  kept.pending = order(7, 1, 2);
  kept.held = true;
  kept.allowed = {1, 2};
  ASSERT_TRUE(ledger_->keep("story", kept));
  open();
  const Kept* found = ledger_->find("story");
  ASSERT_NE(found, nullptr);
  ASSERT_TRUE(found->pending);
  EXPECT_EQ(found->pending->epoch, 8U);
  EXPECT_EQ(found->pending->decision, "price: cheaper");
  EXPECT_TRUE(found->held);
  EXPECT_EQ(ledger_->next_number(), 8U) << "a number is never used twice";
  EXPECT_TRUE(ledger_->record("story", now_).shifting);
}

TEST_F(LedgerTest, WhatAGroupCameFromAndWhenOutlivesThis) {
  over(order(1, 2, 4), true, now_);
  open();
  now_.boot_ms += 5'000;
  now_.unix_ms -= 3'600'000;  // somebody set the clock back
  const auto record = ledger_->record("story", now_);
  EXPECT_EQ(record.came_from, 2);
  EXPECT_EQ(record.since_shift_ms, 5'000);
  EXPECT_EQ(record.pause_ms, 17.5);
  EXPECT_EQ(record.origin, "scheduler");
  EXPECT_EQ(record.shifts_of_hour, 1U);
  EXPECT_FALSE(record.shifting);
  ASSERT_EQ(ledger_->history().size(), 1U);
  EXPECT_EQ(ledger_->history()[0].order.to, 4);
}

TEST_F(LedgerTest, AShiftThatWasNotDoneChangesNoGear) {
  over(order(1, 2, 4), true, now_);
  now_.boot_ms += 9'000;
  over(order(2, 4, 3), false, now_);
  const auto record = ledger_->record("story", now_);
  EXPECT_EQ(record.came_from, 2);
  EXPECT_EQ(record.since_shift_ms, 9'000);
  EXPECT_EQ(ledger_->history().size(), 2U);
}

TEST_F(LedgerTest, AfterAnotherBootTheWallClockCounts) {
  over(order(1, 1, 2), true, now_);
  const Moment later{"boot-2", 10, now_.unix_ms + 60'000};
  EXPECT_EQ(ledger_->record("story", later).since_shift_ms, 60'000);
  const Moment earlier{"boot-2", 10, now_.unix_ms - 60'000};
  EXPECT_EQ(ledger_->record("story", earlier).since_shift_ms, 0);
}

TEST_F(LedgerTest, AnHourIsAnHour) {
  for (std::uint64_t number = 1; number <= 3; ++number) {
    over(order(number, 1, 2), true, now_);
    now_.boot_ms += 1'500'000;
  }
  EXPECT_EQ(ledger_->record("story", now_).shifts_of_hour, 2U);
}

TEST_F(LedgerTest, AnEndThatIsFoundTwiceIsOneEntry) {
  over(order(1, 1, 2), true, now_);
  over(order(1, 1, 2), true, now_);
  EXPECT_EQ(ledger_->history().size(), 1U);
}

TEST_F(LedgerTest, TheHistoryIsBounded) {
  for (std::uint64_t number = 1; number <= Ledger::kHistory + 10; ++number) over(order(number, 1, 2), true, now_);
  open();
  EXPECT_EQ(ledger_->history().size(), Ledger::kHistory);
  EXPECT_EQ(ledger_->history().back().order.number, Ledger::kHistory + 10);
}

TEST_F(LedgerTest, ADamagedFileIsSetAsideAndSaid) {
  ASSERT_TRUE(ledger_->see(5));
  std::ofstream(record()) << "{\"term\": 5, \"groups\": {\"../x\": {}}}";
  open();
  EXPECT_EQ(ledger_->term(), 0U);
  EXPECT_TRUE(std::filesystem::exists(record().string() + ".damaged"));
  std::ofstream(record()) << "{\"ter";
  open();
  EXPECT_EQ(ledger_->term(), 0U);
}

TEST_F(LedgerTest, WhatCannotBeWrittenHasNotHappened) {
  if (::geteuid() == 0) {
    // Root writes everywhere: a folder in the way of the new file stops it, too.
    ASSERT_EQ(::mkdir((record().string() + ".new").c_str(), 0700), 0);
  } else {
    ASSERT_EQ(::chmod(record().parent_path().c_str(), 0500), 0);
  }
  EXPECT_FALSE(ledger_->see(9));
  EXPECT_EQ(ledger_->term(), 0U);
  Kept kept;
  kept.pending = order(1, 1, 2);
  EXPECT_FALSE(ledger_->keep("story", kept));
  EXPECT_EQ(ledger_->find("story"), nullptr);
  EXPECT_EQ(ledger_->next_number(), 1U);
  ::chmod(record().parent_path().c_str(), 0700);
}

}  // namespace
}  // namespace gearbox::executor
