// bare.hpp: the limits and the peer that the product's own path is held against. Each returns the times of single round
// trips (or copies) in microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gearbox::bench {

using Samples = std::vector<double>;

void pin(int cpu);  // this thread; -1: anywhere

Samples memcpy_of(std::size_t bytes, int times);
/// 64 B over two bare rings, both sides spinning, on two CPUs.
Samples ring_spin(int times);
/// `bytes` written in place by one side, read once by the other, whose sum comes back over the same rings; both spin.
Samples ring_spin_large(std::size_t bytes, int times);
/// Writes `bytes` (whole words) so that each differs from the last time, without reading anything; returns the words'
/// sum.
std::uint64_t write_in_place(std::span<std::byte> bytes, std::uint64_t seed);
/// The same rings, both sides on one CPU, never spinning: each waits in a futex.
Samples ring_futex_one_core(int times);
/// 64 B over a unix stream socket; `gap_us` of sleep between two pings.
Samples uds_ping(int times, int gap_us);

}  // namespace gearbox::bench
