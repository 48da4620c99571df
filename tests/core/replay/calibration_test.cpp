// The simulator's replica against published figures of a 7B model on one A100 (docs/gears.md).
#include "replay/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace gearbox::replay {
namespace {

TEST(Calibration, DecodeAndFirstTokenAreAsPublished) {
  const std::vector<CalibrationPoint> points = calibration();
  ASSERT_EQ(points.size(), 5U);
  for (const CalibrationPoint& point : points) EXPECT_LE(std::abs(point.error()), 0.15) << point.what;
  EXPECT_LE(calibration_error(points), 0.10);
}

}  // namespace
}  // namespace gearbox::replay
