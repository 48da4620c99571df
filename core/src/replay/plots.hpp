// plots.hpp: the load of a run over time, in a bounded number of points however long it takes.
#pragma once

#include <vector>

#include "replay/result.hpp"

namespace gearbox::replay {

class Plots {
 public:
  Plots(bool wanted, double span_s)
      : wanted_(wanted), every_(std::max<Nanos>(1, static_cast<Nanos>(span_s / kPoints))) {}

  void arrived() { ++arrived_; }
  void ended() { ++ended_; }
  /// Once a second.
  void beat(Nanos now, std::uint32_t waiting, std::uint32_t running) {
    waiting_ = std::max(waiting_, waiting);
    running_ = std::max(running_, running);
    if (now - last_ < every_ * kSecond) return;
    add(now);
  }
  std::vector<LoadPoint> take(Nanos now) {
    if (now > last_) add(now);
    return std::move(points_);
  }

 private:
  static constexpr int kPoints = 600;

  void add(Nanos now) {
    const double seconds = in_seconds(now - last_);
    if (wanted_ && points_.size() < 20 * kPoints)
      points_.push_back(
          {now, static_cast<double>(arrived_) / seconds, static_cast<double>(ended_) / seconds, waiting_, running_});
    last_ = now;
    arrived_ = ended_ = 0;
    waiting_ = running_ = 0;
  }

  bool wanted_;
  Nanos every_;  // seconds
  Nanos last_ = 0;
  std::uint64_t arrived_ = 0, ended_ = 0;
  std::uint32_t waiting_ = 0, running_ = 0;
  std::vector<LoadPoint> points_;
};

}  // namespace gearbox::replay
