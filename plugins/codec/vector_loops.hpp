// vector_loops.hpp: running sums in vector registers, and how a loop is compiled twice: for any CPU, and for one with
// AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// A loop marked GEARBOX_LOOP takes the instruction set of the function that it is inlined into.
#define GEARBOX_LOOP static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define GEARBOX_HAS_AVX2_PATH 1
#define GEARBOX_AVX2 __attribute__((target("avx2")))
#endif

namespace gearbox::codec {

#if defined(GEARBOX_HAS_AVX2_PATH)
inline bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}
#endif

// 16 bytes is what every CPU that we build for has; the compiler's vectors make SSE2, AVX or NEON of it.
using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
using Words8 = std::uint16_t __attribute__((vector_size(16)));

template <class Vector>
GEARBOX_LOOP Vector load_vector(const void* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// sums[i] = base[i] + start + steps[0] + … + steps[i], all modulo 256. `sums` may be `base`; no other overlap.
/// With base == nullptr it counts as zeros.
template <bool with_base>
GEARBOX_LOOP void running_sum_bytes(const std::uint8_t* base, const std::uint8_t* steps, std::uint8_t* sums,
                                    std::size_t count, std::uint8_t start) {
  const Bytes16 zero{};
  Bytes16 carry = zero + start;
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Bytes16 v = load_vector<Bytes16>(steps + i);
    v += __builtin_shufflevector(zero, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
    v += __builtin_shufflevector(zero, v, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    v += __builtin_shufflevector(zero, v, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
    v += __builtin_shufflevector(zero, v, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    // The total of these 16 does not wait for the carry, so that one addition is all that links a block to the next.
    const Bytes16 total = __builtin_shufflevector(v, v, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    v += carry;
    if constexpr (with_base) v += load_vector<Bytes16>(base + i);
    std::memcpy(sums + i, &v, sizeof v);
    carry += total;
  }
  std::uint8_t sum = carry[0];
  for (; i < count; ++i) {
    sum = static_cast<std::uint8_t>(sum + steps[i]);
    std::uint8_t value = sum;
    if constexpr (with_base) value = static_cast<std::uint8_t>(value + base[i]);
    sums[i] = value;
  }
}

/// The sum of the bytes' sizes as signed numbers: a guess at what they cost an entropy coder.
GEARBOX_LOOP std::uint64_t sum_of_sizes(const std::uint8_t* values, std::size_t count) {
  const Bytes16 zero{};
  std::uint64_t total = 0;
  std::size_t i = 0;
  while (i + 16 <= count) {
    Words8 sums{};
    // 128 rounds of at most 2 × 128 in each word stay below 65536.
    for (int round = 0; round < 128 && i + 16 <= count; ++round, i += 16) {
      const Bytes16 v = load_vector<Bytes16>(values + i);
      const Bytes16 negative = zero - v;
      const Bytes16 size = v < negative ? v : negative;
      Words8 pairs;
      std::memcpy(&pairs, &size, sizeof pairs);
      sums += (pairs & 0xFF) + (pairs >> 8);
    }
    for (int k = 0; k < 8; ++k) total += sums[k];
  }
  for (; i < count; ++i) {
    const auto negative = static_cast<std::uint8_t>(-values[i]);
    total += values[i] < negative ? values[i] : negative;
  }
  return total;
}

/// sums[i] = start + steps[0] + … + steps[i], modulo 65536, in place.
GEARBOX_LOOP void running_sum_words(std::uint16_t* values, std::size_t count, std::uint16_t start) {
  const Words8 zero{};
  Words8 carry = zero + start;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Words8 v = load_vector<Words8>(values + i);
    v += __builtin_shufflevector(zero, v, 7, 8, 9, 10, 11, 12, 13, 14);
    v += __builtin_shufflevector(zero, v, 6, 7, 8, 9, 10, 11, 12, 13);
    v += __builtin_shufflevector(zero, v, 4, 5, 6, 7, 8, 9, 10, 11);
    const Words8 total = __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7);
    v += carry;
    std::memcpy(values + i, &v, sizeof v);
    carry += total;
  }
  std::uint16_t sum = carry[0];
  for (; i < count; ++i) {
    sum = static_cast<std::uint16_t>(sum + values[i]);
    values[i] = sum;
  }
}

}  // namespace gearbox::codec
