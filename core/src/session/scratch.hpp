// scratch.hpp: memory for one coded tile while it arrives, reused instead of allocated (fresh pages cost more than the
// copy).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::session {

/// Owned by one coroutine; given back to a small per-thread stock when it ends. At most kMaxPayloadBytes.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes) {
    if (stock().empty()) {
      memory_ = std::make_unique<std::byte[]>(wire::kMaxPayloadBytes);
    } else {
      memory_ = std::move(stock().back());  // the one used last: its pages are warm
      stock().pop_back();
    }
  }
  ~Scratch() {
    if (stock().size() < kKept) stock().push_back(std::move(memory_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ByteSpan bytes() { return {memory_.get(), bytes_}; }

 private:
  static constexpr std::size_t kKept = 8;
  static std::vector<std::unique_ptr<std::byte[]>>& stock() {
    thread_local std::vector<std::unique_ptr<std::byte[]>> kept;
    return kept;
  }
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_;
};

}  // namespace gearbox::session
