#include "gearbox/shm/spin.hpp"

#include <gtest/gtest.h>

namespace gearbox::shm {

TEST(SpinBudget, ZeroTurnsSpinningOff) {
  SpinBudget budget(microseconds(0));
  EXPECT_EQ(budget.now().count(), 0);
  budget.observe(microseconds(1));
  EXPECT_EQ(budget.now().count(), 0);
}

TEST(SpinBudget, GrowsWithTheExpectedWaitAndGivesUpOnLongOnes) {
  SpinBudget budget(microseconds(20));
  for (int i = 0; i < 50; ++i) budget.observe(microseconds(1));
  EXPECT_EQ(budget.now(), microseconds(20));
  for (int i = 0; i < 50; ++i) budget.observe(microseconds(100));
  EXPECT_GT(budget.now(), microseconds(150));
  for (int i = 0; i < 50; ++i) budget.observe(milliseconds(50));
  EXPECT_EQ(budget.now().count(), 0);
}

TEST(SpinBudget, SpinsAgainSoonAfterALongPause) {
  SpinBudget budget(microseconds(20));
  for (int i = 0; i < 50; ++i) budget.observe(seconds(1));
  int calls = 0;
  while (budget.now().count() == 0 && calls < 100) {
    budget.observe(microseconds(2));
    ++calls;
  }
  EXPECT_LT(calls, 10);
}

}  // namespace gearbox::shm
