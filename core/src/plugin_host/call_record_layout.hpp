// call_record_layout.hpp: run/ROLE.calling byte by byte: a header, then one place for each call that can be under way.
//
// Written by one process through a mapping, read by another with pread (a mapping would end the reader with SIGBUS when
// the file is cut). A place's `turn` is the last to change when a call begins and the first when it ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "plugin_host/call_record.hpp"

namespace gearbox::plugin_host {

inline constexpr std::uint64_t kCallMagic = 0x314C4C4143584247;  // "GBXCALL1" as it lies in the file
inline constexpr std::uint32_t kCallLayout = 1;
inline constexpr std::size_t kFunctionBytes = 32;
inline constexpr std::size_t kTextWords = (sizeof(CallRecord::Label) + kFunctionBytes) / sizeof(std::uint64_t);

/// The low bits of a turn; the others count the calls of its place, so that no two calls of one place look alike.
enum TurnState : std::uint64_t { kFree = 0, kClaimed = 1, kUnderWay = 2, kTurnStep = 4 };

inline TurnState state_of(std::uint64_t turn) {
  return static_cast<TurnState>(turn % kTurnStep);
}

struct alignas(64) CallPlace {
  std::atomic<std::uint64_t> turn{0};
  std::atomic<std::int64_t> begun_ns{0};                      // of the monotonic clock
  std::atomic<std::int64_t> hung_after_ns{0};                 // INT64_MAX: never
  std::array<std::atomic<std::uint64_t>, kTextWords> text{};  // a Label, then the function's name, zero-padded
};

struct CallFile {
  std::atomic<std::uint64_t> magic{0};  // last to be written: before it the file is none
  std::uint32_t layout = kCallLayout;
  std::uint32_t places = kCallPlaces;
  std::uint64_t place_bytes = sizeof(CallPlace);
  alignas(64) std::array<CallPlace, kCallPlaces> place{};
};

static_assert(sizeof(CallRecord::Label) == 192 && std::is_trivially_copyable_v<CallRecord::Label>);
static_assert(sizeof(CallPlace) == 256 && sizeof(CallFile) == 64 + 256 * kCallPlaces);
static_assert(std::is_standard_layout_v<CallFile> && std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace gearbox::plugin_host
