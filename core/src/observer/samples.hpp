// samples.hpp: the last samples of one figure, as a distribution.
#pragma once

#include <cstddef>
#include <deque>

namespace gearbox::observer {

inline constexpr std::size_t kSamples = 60;

class Samples {
 public:
  void add(double value) {
    values_.push_back(value);
    if (values_.size() > kSamples) values_.pop_front();
  }
  void clear() { values_.clear(); }
  std::size_t count() const { return values_.size(); }
  /// Below zero while there is no sample.
  double mean() const;
  double peak() const;
  /// Standard deviation ÷ mean; 0 when all are 0; below zero while there are fewer than two.
  double burstiness() const;

 private:
  std::deque<double> values_;
};

}  // namespace gearbox::observer
