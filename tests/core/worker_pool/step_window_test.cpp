#include "worker_pool/step_window.hpp"

#include <gtest/gtest.h>

namespace gearbox::worker_pool {

TEST(StepWindow, IsZeroWithoutSamples) {
  EXPECT_EQ(StepWindow().p95(Instant{} + seconds(5)).count(), 0);
}

TEST(StepWindow, TellsTheValueThatNinetyFiveOfHundredStayBelow) {
  StepWindow window;
  const Instant now = Instant{} + seconds(100);
  for (int i = 1; i <= 100; ++i) window.add(now, microseconds(i * 100));
  const auto p95 = window.p95(now).count();
  EXPECT_GE(p95, 9500);
  EXPECT_LE(p95, 9500 * 9 / 8);
}

TEST(StepWindow, ForgetsWhatIsOlderThanTenSeconds) {
  StepWindow window;
  const Instant now = Instant{} + seconds(100);
  window.add(now, microseconds(1'000'000));
  EXPECT_GT(window.p95(now).count(), 0);
  EXPECT_EQ(window.p95(now + seconds(11)).count(), 0);
}

TEST(StepWindow, TakesAbsurdDurations) {
  StepWindow window;
  const Instant now = Instant{} + seconds(100);
  window.add(now, microseconds::max());
  window.add(now, microseconds(-5));
  EXPECT_GT(window.p95(now).count(), 0);
}

}  // namespace gearbox::worker_pool
