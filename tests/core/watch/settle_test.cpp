#include "watch/settle.hpp"

#include <gtest/gtest.h>

namespace gearbox::watch {
namespace {

using What = Verdict::What;

/// A folder with these files; a number stands for all that the file system says of one.
Stamps files(std::initializer_list<std::pair<const char*, std::uint64_t>> all) {
  Stamps stamps;
  for (const auto& [name, inode] : all) stamps.entries[name] = Stamp{.inode = inode};
  return stamps;
}

class SettleTest : public ::testing::Test {
 protected:
  SettleTest() { settle_.applied(files({{"a", 1}, {"b", 1}})); }
  Verdict at(int ms, const Stamps& stamps, Writers writers = Writers::none, bool fresh = false) {
    return settle_.look({stamps, writers, fresh}, start_ + milliseconds(ms));
  }
  int due(const Verdict& verdict) const {
    return static_cast<int>(std::chrono::duration_cast<milliseconds>(verdict.look_again - start_).count());
  }
  const Instant start_{seconds(1000)};
  const Stamps old_ = files({{"a", 1}, {"b", 1}});
  const Stamps new_ = files({{"a", 2}, {"b", 1}});
  Settle settle_{milliseconds(1000)};
};

TEST_F(SettleTest, NothingChangedIsNothing) {
  EXPECT_EQ(at(0, old_).what, What::unchanged);
  EXPECT_EQ(at(5000, old_, Writers::some, true).what, What::unchanged);
}

TEST_F(SettleTest, AChangeIsReadOnceItHasKeptStill) {
  const Verdict first = at(0, new_);
  EXPECT_EQ(first.what, What::wait);
  EXPECT_EQ(due(first), 100);
  EXPECT_EQ(at(99, new_).what, What::wait);
  EXPECT_EQ(at(100, new_).what, What::settled);
  settle_.applied(new_);
  EXPECT_EQ(at(101, new_).what, What::unchanged);
  EXPECT_EQ(at(9000, new_).what, What::unchanged);
}

TEST_F(SettleTest, EachFurtherChangeStartsTheTimeAnew) {
  EXPECT_EQ(at(0, new_).what, What::wait);
  EXPECT_EQ(due(at(90, files({{"a", 3}, {"b", 1}}))), 190);
  EXPECT_EQ(at(189, files({{"a", 3}, {"b", 1}})).what, What::wait);
  EXPECT_EQ(at(190, files({{"a", 3}, {"b", 1}})).what, What::settled);
}

TEST_F(SettleTest, AChangeThatIsTakenBackIsNothing) {
  EXPECT_EQ(at(0, new_).what, What::wait);
  EXPECT_EQ(at(50, old_).what, What::unchanged);
  EXPECT_EQ(due(at(60, new_)), 160) << "the time before counts no more";
}

TEST_F(SettleTest, AFileThatSomebodyWritesIsNotReadHoweverLongItKeepsStill) {
  EXPECT_EQ(at(0, new_, Writers::some).what, What::wait);
  const Verdict later = at(60'000, new_, Writers::some);
  EXPECT_EQ(later.what, What::wait);
  EXPECT_EQ(due(later), 61'000);
  EXPECT_EQ(at(60'001, new_).what, What::settled);
}

TEST_F(SettleTest, WhereNobodyCanSayItKeepsStillOverTwoPolls) {
  const Verdict first = at(0, new_, Writers::unknown);
  EXPECT_EQ(due(first), 1000);
  EXPECT_EQ(at(999, new_, Writers::unknown).what, What::wait);
  EXPECT_EQ(at(1000, new_, Writers::unknown).what, What::settled);
}

TEST_F(SettleTest, WhatVanishedMustStayAwayForASecond) {
  const Stamps less = files({{"b", 1}});
  EXPECT_EQ(due(at(0, less)), 1000);
  EXPECT_EQ(at(999, less).what, What::wait);
  EXPECT_EQ(at(1000, less).what, What::settled);
}

TEST_F(SettleTest, DeleteAndCreateIsNeverSeenAsDeletion) {
  EXPECT_EQ(at(0, files({{"b", 1}})).what, What::wait);
  EXPECT_EQ(at(900, files({{"b", 1}})).what, What::wait);
  EXPECT_EQ(due(at(950, new_)), 1950);
  EXPECT_EQ(at(1950, new_).what, What::settled);
}

TEST_F(SettleTest, WhatIsWrittenInPlaceMustKeepStillForASecond) {
  Stamps half = old_;
  half.entries["a"].size_bytes = 10;
  Stamps whole = old_;
  whole.entries["a"].size_bytes = 20;
  EXPECT_EQ(due(at(0, half)), 1000);
  EXPECT_EQ(at(300, half).what, What::wait);
  EXPECT_EQ(due(at(600, whole)), 1600);
  EXPECT_EQ(at(1599, whole).what, What::wait);
  EXPECT_EQ(at(1600, whole).what, What::settled);
}

TEST_F(SettleTest, WhatWasGoneInBetweenKeepsItsSecondWhenItIsBack) {
  EXPECT_EQ(at(0, files({{"b", 1}})).what, What::wait);
  EXPECT_EQ(due(at(200, new_)), 1200) << "perhaps its writer is not done";
  EXPECT_EQ(at(1200, new_).what, What::settled);
}

TEST_F(SettleTest, WhoeverKnowsHalfAFileFromAWholeOneMaySettleSooner) {
  Settle quick{milliseconds(1000), kStill};
  quick.applied(old_);
  Stamps half = old_;
  half.entries["a"].size_bytes = 10;
  EXPECT_EQ(due(quick.look({half, Writers::none, false}, start_)), 100);
  const Stamps gone = files({{"b", 1}});
  EXPECT_EQ(due(quick.look({gone, Writers::none, false}, start_ + milliseconds(10))), 1010) << "but not for a deletion";
}

TEST_F(SettleTest, FreshTimeStampsAreLookedAtAgain) {
  EXPECT_EQ(at(0, new_).what, What::wait);
  const Verdict fresh = at(100, new_, Writers::none, true);
  EXPECT_EQ(fresh.what, What::wait);
  EXPECT_EQ(due(fresh), 160);
  EXPECT_EQ(at(160, new_).what, What::settled);
}

TEST_F(SettleTest, TheFirstLookEverIsAChange) {
  Settle settle;
  EXPECT_EQ(settle.look({Stamps{}, Writers::none, false}, start_).what, What::wait);
  EXPECT_EQ(settle.look({Stamps{}, Writers::none, false}, start_ + kStill).what, What::settled);
  settle.applied(Stamps{});
  EXPECT_EQ(settle.look({Stamps{}, Writers::none, false}, start_ + kStill).what, What::unchanged);
}

TEST_F(SettleTest, ARefusedChangeIsNotToldAgainButTheWayBackIs) {
  EXPECT_EQ(at(0, new_).what, What::wait);
  EXPECT_EQ(at(100, new_).what, What::settled);
  settle_.applied(new_);  // read, and refused
  EXPECT_EQ(at(5000, new_).what, What::unchanged);
  EXPECT_EQ(at(6000, old_).what, What::wait);
  EXPECT_EQ(at(6100, old_).what, What::settled);
}

}  // namespace
}  // namespace gearbox::watch
