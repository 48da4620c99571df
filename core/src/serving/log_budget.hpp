// log_budget.hpp: at most so many lines of one kind in a window, and the number of those left out with the next one.
#pragma once

#include <cstdint>
#include <string>

#include "gearbox/base/clock.hpp"

namespace gearbox::serving {

/// For events that strangers cause: garbage on a port must not fill the disk. One strand; clock passed in.
class LogBudget {
 public:
  LogBudget(std::uint32_t lines, milliseconds window) : lines_(lines), window_(window) {}

  bool allows(Instant now) {
    if (!started_ || now - since_ >= window_) {
      started_ = true;
      since_ = now;
      used_ = 0;
    }
    if (used_ >= lines_) {
      ++left_out_;
      return false;
    }
    ++used_;
    return true;
  }

  /// " left_out=N", once, for the end of the line that was allowed; empty when none was left out.
  std::string note() {
    if (left_out_ == 0) return {};
    std::string text = " left_out=" + std::to_string(left_out_);
    left_out_ = 0;
    return text;
  }

 private:
  std::uint32_t lines_;
  milliseconds window_;
  bool started_ = false;
  Instant since_{};
  std::uint32_t used_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace gearbox::serving
