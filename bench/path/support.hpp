// support.hpp: what every part of this bench uses.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::bench {

/// A bench that cannot do its work has nothing to say: it ends with the reason.
template <class T>
T must(Outcome<T> outcome) {
  if (!outcome) {
    std::fprintf(stderr, "bench_path: %s\n", describe(outcome.error()).c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(outcome).value();
}

inline double clock_us(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// One line of the table: the values of all rounds, and what is aimed for.
struct Row {
  std::string name;
  std::vector<double> values;
  std::string unit;
  double target = 0;     // 0: none
  bool at_least = true;  // else at most
};

}  // namespace gearbox::bench
