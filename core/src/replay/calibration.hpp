// calibration.hpp: published measurements of a 7B model on A100 cards, and what the simulator says of the same.
#pragma once

#include <string>
#include <vector>

namespace gearbox::replay {

struct CalibrationPoint {
  std::string what;
  double published_ms = 0;
  double simulated_ms = 0;

  double error() const { return simulated_ms / published_ms - 1; }
};

std::vector<CalibrationPoint> calibration();
/// Mean of the errors' absolute values.
double calibration_error(const std::vector<CalibrationPoint>& points);

}  // namespace gearbox::replay
