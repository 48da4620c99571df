// bare.hpp: the limits and the peer that the product's own path is held against. Each returns the times of single round
// trips (or copies) in microseconds.
#pragma once

#include <cstddef>
#include <vector>

namespace gearbox::bench {

using Samples = std::vector<double>;

void pin(int cpu);  // this thread; -1: anywhere

Samples memcpy_of(std::size_t bytes, int times);
/// 64 B over two bare rings, both sides spinning, on two CPUs.
Samples ring_spin(int times);
/// The same rings, both sides on one CPU, never spinning: each waits in a futex.
Samples ring_futex_one_core(int times);
/// 64 B over a unix stream socket; `gap_us` of sleep between two pings.
Samples uds_ping(int times, int gap_us);

}  // namespace gearbox::bench
