// ring.hpp: the two ends of one direction of a ring. The entries and the published indices lie in shared memory
// (layout.hpp); each end keeps its own index here, in private memory, and believes the other's only within its range.
// No lock: a peer that dies at any instruction leaves at most an entry that was never published, and that entry is
// never delivered.
//
// Memory orders. `head` (producer → consumer) and `tail` (consumer → producer) each carry a release/acquire pair, so
// that an entry's bytes, and the payload written before it, are seen before the index that announces them. Against lost
// wake-ups four accesses are sequentially consistent (see publish() and may_sleep()): in their single order either the
// producer's store of `head` comes before the consumer's last look at it, or the consumer's flag comes before the
// producer's look at the flag. Only the consumer writes `consumer_sleeps`: a producer that cleared it could clear the
// flag of the next sleep.
//
// Threads: each end belongs to one thread.
#pragma once

#include <sched.h>

#include <cstdint>

#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/copy_once.hpp"
#include "gearbox/shm/layout.hpp"
#include "gearbox/shm/prefetch.hpp"

namespace gearbox::shm {

inline constexpr std::uint32_t kRingCapacity = 256;  // entries per direction
/// Calls that a worker may hold: its answers to all of them, and what else the two say to each other, fit at once.
inline constexpr std::uint32_t kMostCalls = kRingCapacity / 2;
inline constexpr std::uint32_t kNoCpu = 0xFFFFFFFF;

inline std::uint32_t this_cpu() {
  const int cpu = ::sched_getcpu();
  return cpu < 0 ? kNoCpu : static_cast<std::uint32_t>(cpu);
}

/// Bytes of the memory that holds both directions of `capacity` entries each.
constexpr std::uint64_t ring_bytes(std::uint32_t capacity) {
  return sizeof(RingMemory) + std::uint64_t{2} * capacity * sizeof(Descriptor);
}

/// The writing end.
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingSide& side, Descriptor* entries, std::uint32_t capacity)
      : side_(&side), entries_(entries), capacity_(capacity) {}

  /// Puts one entry behind the last one; the consumer does not see it before publish().
  /// Errors: overloaded when the ring is full; bad_frame when the consumer's index is impossible.
  Outcome<void> push(const Descriptor& entry) {
    if (own_ - seen_tail_ == capacity_) {
      // Acquire: pairs with the consumer's release store in release(): the entry was copied out before it is
      // overwritten.
      const std::uint64_t tail = side_->tail.load(std::memory_order_acquire);
      if (tail < seen_tail_ || tail > published_) return Error{Errc::bad_frame, "the ring's tail is out of range"};
      seen_tail_ = tail;
      if (own_ - seen_tail_ == capacity_) return Error{Errc::overloaded, "the ring is full"};
    }
    entries_[own_ & (capacity_ - 1)] = entry;
    ++own_;
    return done();
  }

  /// Makes everything pushed so far visible. True: the consumer sleeps, ring its doorbell.
  [[nodiscard]] bool publish() {
    published_ = own_;
    const std::uint32_t cpu = this_cpu();
    if (cpu != told_cpu_) {  // only then, so that the line stays shared between the two CPUs
      told_cpu_ = cpu;
      // Relaxed: a hint, compared and nothing else.
      side_->producer_cpu.store(cpu, std::memory_order_relaxed);
    }
    // Sequentially consistent, which includes release: pairs with the consumer's loads of `head` in ready() (entries
    // before index), and stands with the load below against may_sleep() (no lost wake-up).
    side_->head.store(own_, std::memory_order_seq_cst);
    const bool sleeps = side_->consumer_sleeps.load(std::memory_order_seq_cst) != 0;
    // The next entry's place was last read by the other CPU; it comes over while that one works.
    will_write(&entries_[own_ & (capacity_ - 1)], sizeof(Descriptor));
    return sleeps;
  }

  /// How many entries were pushed in all.
  std::uint64_t pushed() const { return own_; }
  /// How many of them the consumer has taken, as it says; all of them when what it says is impossible.
  std::uint64_t taken() const {
    // Relaxed: nothing is read that depends on it.
    const std::uint64_t tail = side_->tail.load(std::memory_order_relaxed);
    return tail < seen_tail_ || tail > published_ ? published_ : tail;
  }

  /// The CPU that the consumer last ran on, as it says.
  std::uint32_t consumer_cpu() const { return side_->consumer_cpu.load(std::memory_order_relaxed); }

 private:
  RingSide* side_ = nullptr;
  Descriptor* entries_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t own_ = 0;        // entries pushed
  std::uint64_t published_ = 0;  // entries the consumer may have seen
  std::uint64_t seen_tail_ = 0;
  std::uint32_t told_cpu_ = kNoCpu;
};

/// The reading end.
class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingSide& side, const Descriptor* entries, std::uint32_t capacity)
      : side_(&side), entries_(entries), capacity_(capacity) {}

  /// How many entries may be taken: one look at the producer's index.
  /// Errors: bad_frame when the index is outside [own, own + capacity]; the ring is of no use after that.
  Outcome<std::uint64_t> ready() {
    // Acquire: pairs with the producer's store of `head` in publish().
    const std::uint64_t head = side_->head.load(std::memory_order_acquire);
    if (head - own_ > capacity_) return Error{Errc::bad_frame, "the ring's head is out of range"};
    return head - own_;
  }

  /// The next entry, copied once; only after ready() counted it.
  Descriptor take() {
    const Descriptor entry = copy_once<Descriptor>(&entries_[own_ & (capacity_ - 1)]);
    ++own_;
    return entry;
  }

  /// Gives the places of all taken entries back to the producer; once per batch.
  void release() {
    // Release: pairs with the producer's acquire load of `tail` in push(): our copies were made before.
    side_->tail.store(own_, std::memory_order_release);
  }

  /// Publishes which CPU this end runs on, for the producer's side to decide whether to spin.
  void publish_cpu() {
    const std::uint32_t cpu = this_cpu();
    if (cpu == told_cpu_) return;  // a poll must not write to a line that the producer reads at each publish
    told_cpu_ = cpu;
    side_->consumer_cpu.store(cpu, std::memory_order_relaxed);
  }
  /// The CPU that the producer last ran on, as it says.
  std::uint32_t producer_cpu() const { return side_->producer_cpu.load(std::memory_order_relaxed); }

  /// Raises the flag and looks once more. True: nothing there, the caller may block on the doorbell. False: there is
  /// something (or the index is broken): do not block. Either way wake() follows.
  [[nodiscard]] bool may_sleep() {
    // Both sequentially consistent: stands against the store and load in publish().
    side_->consumer_sleeps.store(1, std::memory_order_seq_cst);
    return side_->head.load(std::memory_order_seq_cst) == own_;
  }
  void wake() {
    // Relaxed: a producer that still sees 1 rings once too often, which wakes us once for nothing.
    side_->consumer_sleeps.store(0, std::memory_order_relaxed);
  }

 private:
  RingSide* side_ = nullptr;
  const Descriptor* entries_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t own_ = 0;  // entries taken
  std::uint32_t told_cpu_ = kNoCpu;
};

/// Lays an empty ring into `memory` (zeroed, page-aligned, ring_bytes(capacity) long).
RingMemory* make_ring(void* memory, std::uint32_t capacity);

/// The ring that the other side made. Errors: bad_frame when magic, version, capacity or size do not fit.
Outcome<RingMemory*> open_ring(void* memory, std::uint64_t bytes, std::uint32_t capacity);

inline Descriptor* to_worker_entries(RingMemory* ring) {
  return reinterpret_cast<Descriptor*>(ring + 1);
}
inline Descriptor* to_node_entries(RingMemory* ring, std::uint32_t capacity) {
  return to_worker_entries(ring) + capacity;
}
static_assert(sizeof(RingMemory) % alignof(Descriptor) == 0);

}  // namespace gearbox::shm
