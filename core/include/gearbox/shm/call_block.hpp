// call_block.hpp: the block of a call or an answer: a header, one entry per tensor, a line of text. Written by one
// side, copied once and checked by the other; offsets are checked against the arenas by whoever knows them
// (check_range).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/layout.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::shm {

inline constexpr std::size_t kMaxTextBytes = 1000;  // one line
inline constexpr std::size_t kTensorAlign = 64;     // bytes; of every tensor's start in an arena

/// Where a tensor of a block lies.
struct PlacedTensor {
  wire::TensorSpec spec;
  std::uint32_t item = 0;  // position in a list output
  ArenaId arena{};
  std::uint64_t offset = 0;  // bytes from the arena's start
};

struct Block {
  std::vector<PlacedTensor> tensors;
  std::uint32_t error = 0;  // an Errc in a failure, else 0
  std::string text;         // printable, well-formed UTF-8, one line
};

/// Bytes that a block takes.
constexpr std::uint64_t block_bytes(std::size_t tensors, std::size_t text_bytes) {
  return sizeof(BlockHeader) + tensors * sizeof(TensorEntry) + text_bytes;
}
/// Room at the front of a grant for the largest block; the outputs' bytes follow it.
inline constexpr std::uint64_t kAnswerBlockBytes =
    (block_bytes(wire::kMaxTensors, kMaxTextBytes) + kTensorAlign - 1) / kTensorAlign * kTensorAlign;
/// The last bytes of that room, which no block reaches: the number of a call that the worker has taken from the ring
/// and put aside, because the batch that runs is made of others.
inline constexpr std::uint64_t kAsideOffset = kAnswerBlockBytes - sizeof(std::uint64_t);
static_assert(block_bytes(wire::kMaxTensors, kMaxTextBytes) <= kAsideOffset);
/// The grant for outputs of `bytes` in all: the block, and what aligning each tensor may cost.
constexpr std::uint64_t grant_for(std::uint64_t bytes) {
  return kAnswerBlockBytes + (bytes + kTensorAlign - 1) / kTensorAlign * kTensorAlign +
         wire::kMaxTensors * kTensorAlign;
}

/// How the grant of a streaming call is divided: first the room of the block that ends it, so that this never lies over
/// a part which somebody still reads; then `rooms` equal rooms, each like the grant of a plain call. Part n lies in
/// room n % rooms.
struct PartRooms {
  std::uint32_t rooms = 0;
  std::uint64_t room_bytes = 0;
  constexpr std::uint64_t grant_bytes() const { return kAnswerBlockBytes + rooms * room_bytes; }
  /// Bytes from the grant's start to the room of part number `part`.
  constexpr std::uint64_t offset_of(std::uint32_t part) const {
    return kAnswerBlockBytes + (part % rooms) * room_bytes;
  }
};
/// Rooms for parts of `part_bytes` each.
constexpr PartRooms part_rooms(std::uint32_t rooms, std::uint64_t part_bytes) {
  return {rooms, grant_for(part_bytes)};
}

/// Writes a block to the front of `into`, tensor by tensor.
class BlockWriter {
 public:
  explicit BlockWriter(ByteSpan into) : into_(into) {}
  /// Errors: bad_input for too many tensors, or a name or rank that does not fit; no_space when `into` is too short.
  Outcome<void> add(const wire::TensorSpec& spec, std::uint32_t item, ArenaId arena, std::uint64_t offset);
  /// Writes header and text (cut at kMaxTextBytes); returns the block's length. Errors: no_space.
  Outcome<std::uint64_t> finish(std::uint32_t error = 0, std::string_view text = {});

 private:
  ByteSpan into_;
  std::size_t tensors_ = 0;
};

/// Reads the block that lies in the shared bytes `block`; every number is copied once and checked: counts, dtype, rank,
/// shape against bytes, names. Errors: bad_frame, with what was wrong.
Outcome<Block> read_block(ByteView block);
/// The same into a block whose buffers are used again; after an error its content is of no use.
Outcome<void> read_block(ByteView block, Block& into);

/// Says to the worker that holds the call of this block that nobody waits for the answer. A hint: it may be too late.
void mark_cancelled(ByteSpan block);
/// Has the node said so meanwhile? `block` is a call's, in shared memory.
bool is_cancelled(ByteView block);

/// Tells the worker that holds the streaming call of this block how many of its parts have been let go of, in order.
/// Its doorbell is rung after that, see RingProducer::publish().
void give_credit(ByteSpan block, std::uint32_t parts);
/// What the node said last. `block` is a call's, in shared memory.
std::uint32_t credit_of(ByteView block);
/// The worker's word to the node that it has taken call `request` without beginning it, and that it begins it now.
/// `grant`: the call's, at least kAnswerBlockBytes. Only who puts calls aside says either.
void put_aside(ByteSpan grant, std::uint64_t request);
void take_up(ByteSpan grant);
/// Has the worker taken call `request` from the ring, but not begun it?
bool is_aside(ByteView grant, std::uint64_t request);

/// Do `bytes` from `offset` lie inside an arena (or part of one) of `arena_bytes`? Errors: bad_frame.
Outcome<void> check_range(std::uint64_t offset, std::uint64_t bytes, std::uint64_t arena_bytes);

/// A line that people may read: cut, and escaped unless it is printable UTF-8.
std::string one_line(std::string_view text);

}  // namespace gearbox::shm
