// fuzz.hpp: what the targets have in common. A finding is a crash, a sanitizer's report, or a require() that fails.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "gearbox/base/bytes.hpp"

namespace gearbox::fuzz {

/// What a parser must keep whatever it is fed; said, then the process ends, and libFuzzer keeps the input.
inline void require(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// The input, taken from its front; zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(reinterpret_cast<const std::byte*>(data), size) {}
  template <class T>
  T take() {
    T value{};
    const std::size_t there = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), there);
    bytes_ = bytes_.subspan(there);
    return value;
  }
  ByteView rest() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  ByteView bytes_;
};

}  // namespace gearbox::fuzz
