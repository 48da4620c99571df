// histogram.hpp: any number of durations in a bounded place: buckets that grow by 0.4 %, so quantiles are exact to
// that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace gearbox::replay {

class Histogram {
 public:
  void add(double seconds) {
    if (counts_.empty()) counts_.resize(kBuckets);
    ++counts_[bucket_of(seconds)];
    ++count_;
    sum_ += seconds;
    most_ = std::max(most_, seconds);
  }
  std::uint64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double most() const { return most_; }

  /// `share`: 0 to 1. 0 when nothing was added.
  double quantile(double share) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(share * static_cast<double>(count_ - 1));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank) return std::min(most_, middle_of(i));
    }
    return most_;
  }

  struct Point {
    double seconds, share;
  };
  /// The distribution as a curve of about `points` points, for drawing.
  std::vector<Point> curve(std::size_t points) const {
    std::vector<Point> curve;
    if (count_ == 0) return curve;
    std::uint64_t seen = 0;
    std::uint64_t told = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      seen += counts_[i];
      if ((seen - told) * points < count_ && seen < count_ && !curve.empty()) continue;
      told = seen;
      curve.push_back({middle_of(i), static_cast<double>(seen) / static_cast<double>(count_)});
    }
    return curve;
  }

 private:
  static constexpr double kGrowth = 1.004;
  static constexpr double kLeast = 1e-6;         // seconds
  static constexpr std::size_t kBuckets = 7600;  // up to about 4 months

  static std::size_t bucket_of(double seconds) {
    if (seconds <= kLeast) return 0;
    static const double scale = 1 / std::log(kGrowth);
    return std::min(kBuckets - 1, static_cast<std::size_t>(std::log(seconds / kLeast) * scale) + 1);
  }
  static double middle_of(std::size_t bucket) {
    return bucket == 0 ? 0 : kLeast * std::pow(kGrowth, static_cast<double>(bucket) - 0.5);
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  double most_ = 0;
};

}  // namespace gearbox::replay
