// layout.hpp: everything that lies in memory shared by a node and a worker: one struct each, fixed widths, offsets, no
// pointer, no lock. The classes that work on them are in ring.hpp, arena.hpp, call_block.hpp. The other side may die at
// any instruction, or lie: whatever is read here is copied once, checked, then used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gearbox::shm {

inline constexpr std::uint64_t kRingMagic = 0x31'47'4E'49'52'58'42'47ULL;  // "GBXRING1"
inline constexpr std::uint32_t kLayoutVersion = 4;

/// Arena 0 is the node's input arena; n is the output arena of the node's n-th worker slot.
enum class ArenaId : std::uint32_t {};
inline constexpr ArenaId kInputArena{0};

enum class CallKind : std::uint32_t {
  infer = 1,
  probe = 2,  // build inputs from the model's record and run them: a real round trip
  ping = 3,   // answered by the shim's loop
  // worker → node
  answer = 16,   // block holds the outputs
  failure = 17,  // block holds an Errc and one line of text
  part = 18,     // of a streaming call: block holds the outputs of its part number `part`; more follows, and at last an
                 // answer without a block, whose `part` is their number, or a failure
};

/// One entry of a ring.
struct alignas(64) Descriptor {
  std::uint64_t request;  // the node's own call number; an answer repeats it
  std::uint32_t attempt;  // so that a late answer of an earlier attempt is told apart
  CallKind kind;
  std::uint32_t part;   // number of a stream's part
  std::uint32_t epoch;  // of a worker group's plan
  std::uint32_t tenant;
  std::uint32_t priority;
  std::int64_t deadline_ns;  // on CLOCK_MONOTONIC, which both sides read; later it need not be run; 0: no deadline
  ArenaId block_arena;       // where the call block lies
  std::uint32_t flags;
  std::uint64_t block_offset;  // bytes from the arena's start
  std::uint64_t block_bytes;   // 0: no block
  std::uint64_t grant_offset;  // node → worker: where in the worker's output arena the answer may lie
  std::uint64_t grant_bytes;
  std::uint64_t run_ns;  // worker → node: time inside the model
  std::uint32_t batch;   // worker → node: calls that the model got together, this one included
  std::uint32_t rooms;   // node → worker, of a streaming call: parts that the grant has room for at once (behind the
                         // room of the last block, see part_rooms() in call_block.hpp); 0: no stream
  std::int64_t handed_ns;  // node → worker: when it was handed over, on CLOCK_MONOTONIC; 0: not told
  std::uint64_t seed;      // node → worker: a number of the request's own, the same each time that it is run; 0: none
  std::uint32_t
      again_ms;  // worker → node, of a failure that says overloaded: worth to ask again after this; 0: not told
  std::uint32_t input_tokens;  // worker → node, with the end: how long the model found its prompt; 0: not told
};
static_assert(sizeof(Descriptor) == 128 && std::is_standard_layout_v<Descriptor>);

/// At the front of a call block: a few numbers, then `tensors` entries, then text, then (in answers) the bytes.
struct BlockHeader {
  std::uint32_t tensors;
  std::uint32_t error;       // an Errc in a failure, else 0
  std::uint32_t text_bytes;  // one line, behind the entries
  std::uint32_t cancelled;   // of a call: the node sets it to 1, at any time, when nobody waits for the answer any more
  std::uint32_t credited;    // of a streaming call: the node has let go of so many parts, their rooms may be used again
  std::uint32_t reserved[3];
};
static_assert(sizeof(BlockHeader) == 32);

inline constexpr std::size_t kTensorNameBytes = 32;

struct TensorEntry {
  char name[kTensorNameBytes];  // zero-padded; all 32 may be used
  std::uint32_t dtype;          // wire::DType
  std::uint32_t rank;
  std::int64_t shape[8];
  std::uint32_t item;  // position in a list output; 0 for a plain tensor
  ArenaId arena;
  std::uint64_t offset;  // bytes from that arena's start
  std::uint64_t bytes;
};
static_assert(sizeof(TensorEntry) == 128);

/// One direction of a ring: a single producer, a single consumer. Each index has a cache line of its own; each side
/// keeps its own index in private memory and only publishes a copy here.
struct RingSide {
  alignas(64) std::atomic<std::uint64_t> head;             // written by the producer: entries published so far
  alignas(64) std::atomic<std::uint64_t> tail;             // written by the consumer: entries taken so far
  alignas(64) std::atomic<std::uint32_t> consumer_sleeps;  // 1: ring the doorbell after publishing
  std::atomic<std::uint32_t> consumer_cpu;
  std::atomic<std::uint32_t> producer_cpu;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The worker's sign of life: a thread that needs nothing of what the worker is busy with raises it all the time. The
/// node looks only whether it has changed. A line of its own: it never disturbs the rings.
struct alignas(64) Beat {
  std::atomic<std::uint64_t> count;
};

/// The start of a worker's ring memory; entries of both directions follow, requests first.
struct RingMemory {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t capacity;  // entries per direction, a power of two
  RingSide to_worker;
  RingSide to_node;
  Beat beat;
};

}  // namespace gearbox::shm
