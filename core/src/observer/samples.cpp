#include "observer/samples.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gearbox::observer {

double Samples::mean() const {
  if (values_.empty()) return -1;
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double Samples::peak() const {
  return values_.empty() ? -1 : *std::max_element(values_.begin(), values_.end());
}

double Samples::burstiness() const {
  if (values_.size() < 2) return -1;
  const double middle = mean();
  if (middle <= 0) return 0;
  double squares = 0;
  for (const double value : values_) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values_.size())) / middle;
}

}  // namespace gearbox::observer
