// bytes_cast.hpp: std::byte ranges as the unsigned char pointers that libsodium takes.
#pragma once

#include <cstddef>
#include <type_traits>

namespace gearbox::link {

template <class Range>
auto raw(Range&& bytes) {
  constexpr bool kConstant = std::is_const_v<std::remove_pointer_t<decltype(bytes.data())>>;
  return reinterpret_cast<std::conditional_t<kConstant, const unsigned char*, unsigned char*>>(bytes.data());
}

}  // namespace gearbox::link
