// What a worker may write into memory that it shares with its node: indices, entries, answer blocks.
#include <array>
#include <cstddef>
#include <memory>

#include "fuzz.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/ring.hpp"

namespace gearbox::fuzz {
namespace {

constexpr std::uint32_t kEntries = 8;

/// Memory of exactly the ring's size, so that a byte beside it is seen.
struct Ring {
  Ring() : bytes(shm::ring_bytes(kEntries)), memory(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)) {
    std::memset(memory, 0, bytes);
    ring = shm::make_ring(memory, kEntries);
  }
  ~Ring() { std::free(memory); }
  std::uint64_t bytes;
  void* memory;
  shm::RingMemory* ring;
};

void play(Input& input) {
  Ring held;
  shm::RingMemory& ring = *held.ring;
  shm::RingProducer producer(ring.to_worker, shm::to_worker_entries(held.ring), kEntries);
  shm::RingConsumer consumer(ring.to_node, shm::to_node_entries(held.ring, kEntries), kEntries);
  std::uint64_t unread = 0;
  for (int steps = 0; steps < 256 && !input.rest().empty(); ++steps) {
    switch (input.take<std::uint8_t>() % 6) {
      case 0: {  // any byte of it
        const std::size_t at = input.take<std::uint16_t>() % held.bytes;
        static_cast<std::byte*>(held.memory)[at] = input.take<std::byte>();
        break;
      }
      case 1:
        ring.to_node.head.store(input.take<std::uint64_t>());
        break;
      case 2:
        ring.to_worker.tail.store(input.take<std::uint64_t>());
        break;
      case 3: {
        const auto ready = consumer.ready();
        if (!ready) return;  // the ring is of no use any more
        require(ready.value() <= kEntries, "no more entries than there are places");
        for (unread = ready.value(); unread > 0; --unread) (void)consumer.take();
        consumer.release();
        break;
      }
      case 4: {
        const auto pushed = producer.push(shm::Descriptor{});
        if (!pushed && pushed.error().code == Errc::bad_frame) return;
        if (pushed) (void)producer.publish();
        require(producer.taken() <= producer.pushed(), "nobody has taken what was not pushed");
        break;
      }
      default:
        (void)shm::open_ring(held.memory, held.bytes, kEntries);
        break;
    }
  }
}

void read(ByteView bytes) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const auto block = shm::read_block(ByteView(exact.get(), bytes.size()));
  if (!block) return;
  require(block.value().tensors.size() <= wire::kMaxTensors, "no more tensors than are allowed");
  require(block.value().text.size() <= 4 * shm::kMaxTextBytes, "a line of text");
  for (const shm::PlacedTensor& tensor : block.value().tensors) {
    require(wire::check(tensor.spec).has_value(), "a tensor's shape and bytes fit each other");
    (void)shm::check_range(tensor.offset, tensor.spec.bytes, 1 << 20);
  }
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gearbox::fuzz::Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0) {
    gearbox::fuzz::play(input);
  } else {
    gearbox::fuzz::read(input.rest());
  }
  return 0;
}
