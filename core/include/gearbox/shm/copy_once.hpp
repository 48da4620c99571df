// copy_once.hpp: reads from memory that another process may change at any moment.
#pragma once

#include <cstring>
#include <type_traits>

namespace gearbox::shm {

/// One copy of `shared` in private memory. The barrier keeps the compiler from going back to the shared bytes later,
/// which would let the other side change a value between its check and its use.
template <class T>
T copy_once(const void* shared) {
  static_assert(std::is_trivially_copyable_v<T>);
  T copy;
  std::memcpy(&copy, shared, sizeof copy);
  asm volatile("" : : "r"(&copy) : "memory");
  return copy;
}

}  // namespace gearbox::shm
