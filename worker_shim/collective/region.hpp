// region.hpp: the shared memory through which the ranks of one host add tensors and hand them on.
//
// One region serves one epoch of one plan. It holds groups (all-reduce, all-gather, barrier: every member takes part in
// every round) and channels (one writer, one reader). The driver formats it; each rank opens it, and works on its own
// copies of all sizes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gearbox::collective {

inline constexpr std::uint32_t kMagic = 0x43584247;  // "GBXC"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kMostGroups = 256;
inline constexpr std::uint32_t kMostMembers = 64;
inline constexpr std::uint32_t kMostChannels = 256;
inline constexpr std::uint64_t kMostSlotBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kLine = 64;

struct Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t groups;
  std::uint32_t channels;
  std::uint64_t slot_bytes;
  std::uint32_t members[kMostGroups];
};
static_assert(sizeof(Header) % 8 == 0);

/// A word to wait on: rounds count in steps of 2, bit 0 says that the epoch is over. Adding never clears that bit, and
/// one who is about to sleep finds another value than he expects: an abort cannot slip in between his look and his
/// sleep.
using Word = std::atomic<std::uint32_t>;
inline constexpr std::uint32_t kAborted = 1;
inline constexpr std::uint32_t kRound = 2;

struct alignas(kLine) GroupState {
  Word arrived;  // members in this round; the last one clears it before it ends the round
  alignas(kLine) Word round;
};
struct alignas(kLine) ChannelState {
  Word written;
  alignas(kLine) Word read;
};
static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

/// Where things lie. Of every member of a group, and of every channel, there are two slots: what is written in one
/// round stays readable until all have come to the next, so no round needs a second wait.
struct Layout {
  std::uint64_t slot_bytes = 0;
  std::vector<std::uint32_t> members;      // of each group
  std::vector<std::uint64_t> group_state;  // offsets
  std::vector<std::uint64_t> group_slots;
  std::vector<std::uint64_t> channel_state;
  std::vector<std::uint64_t> channel_slots;
  std::uint64_t total = 0;
};

/// Empty (total 0) when a number is out of bounds.
Layout layout_of(std::span<const std::uint32_t> members, std::uint32_t channels, std::uint64_t slot_bytes);

}  // namespace gearbox::collective
