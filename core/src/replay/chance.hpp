// chance.hpp: randomness that is a pure function of a seed, a stream and a counter: what one part of a run draws never
// depends on what another one has drawn, so runs with the same seed meet the same traffic under any policy.
#pragma once

#include <cmath>
#include <cstdint>

namespace gearbox::replay {

class Chance {
 public:
  Chance(std::uint64_t seed, std::uint64_t stream) : key_(mixed(seed + 0x9e3779b97f4a7c15ULL * (stream + 1))) {}

  /// Above 0 and below 1.
  double uniform(std::uint64_t counter) const {
    return (static_cast<double>(mixed(key_ ^ mixed(counter)) >> 12) + 0.5) * 0x1p-52;
  }
  /// Of mean 1.
  double exponential(std::uint64_t counter) const { return -std::log(uniform(counter)); }
  /// 0 to `below` - 1.
  std::uint64_t index(std::uint64_t counter, std::uint64_t below) const {
    return static_cast<std::uint64_t>(uniform(counter) * static_cast<double>(below));
  }
  /// Around 0, of deviation 1 (Box-Muller; takes the counters 2n and 2n + 1).
  double normal(std::uint64_t counter) const {
    return std::sqrt(2 * exponential(2 * counter)) * std::cos(6.283185307179586 * uniform(2 * counter + 1));
  }

 private:
  /// The finisher of splitmix64.
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  std::uint64_t key_;
};

}  // namespace gearbox::replay
