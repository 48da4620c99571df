#include "gearbox/shm/ring.hpp"

#include <bit>
#include <new>

namespace gearbox::shm {

RingMemory* make_ring(void* memory, std::uint32_t capacity) {
  auto* ring = new (memory) RingMemory{};
  ring->layout_version = kLayoutVersion;
  ring->capacity = capacity;
  ring->to_worker.consumer_cpu.store(kNoCpu, std::memory_order_relaxed);
  ring->to_worker.producer_cpu.store(kNoCpu, std::memory_order_relaxed);
  ring->to_node.consumer_cpu.store(kNoCpu, std::memory_order_relaxed);
  ring->to_node.producer_cpu.store(kNoCpu, std::memory_order_relaxed);
  ring->magic = kRingMagic;  // the memory is handed over by a message only after this, so no order is needed
  return ring;
}

Outcome<RingMemory*> open_ring(void* memory, std::uint64_t bytes, std::uint32_t capacity) {
  if (!std::has_single_bit(capacity) || capacity > (1U << 20) || bytes < ring_bytes(capacity)) {
    return Error{Errc::bad_frame, "the ring's size does not fit its capacity"};
  }
  auto* ring = std::launder(reinterpret_cast<RingMemory*>(memory));
  if (ring->magic != kRingMagic || ring->layout_version != kLayoutVersion || ring->capacity != capacity) {
    return Error{Errc::bad_frame, "the memory is no ring of layout version " + std::to_string(kLayoutVersion)};
  }
  return ring;
}

}  // namespace gearbox::shm
