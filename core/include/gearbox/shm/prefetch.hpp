// prefetch.hpp: hints to the memory system. A cache line that the other CPU used last takes 20 to 150 ns to come over;
// asked for ahead of time, several come at once and while something else is done. A wrong hint costs one such transfer
// and nothing else: it never faults and changes no value.
#pragma once

#include <cstddef>

namespace gearbox::shm {

inline constexpr std::size_t kLineBytes = 64;

/// `bytes` from `at` will be read soon.
inline void will_read(const void* at, std::size_t bytes) {
  const char* byte = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(byte + i, 0);
}

/// `bytes` from `at` will be written soon, and nobody else needs them until then.
inline void will_write(const void* at, std::size_t bytes) {
  const char* byte = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += kLineBytes) {
#if defined(__x86_64__)
    // The builtin asks for ownership only where the compiler may assume the instruction; x86-64 without it takes this
    // for a nop.
    asm volatile("prefetchw %0" : : "m"(byte[i]));
#else
    __builtin_prefetch(byte + i, 1);
#endif
  }
}

}  // namespace gearbox::shm
