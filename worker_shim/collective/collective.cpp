#include "collective.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "region.hpp"

using namespace gearbox::collective;

struct gbx_collective {
  std::byte* base = nullptr;
  Layout layout;                       // checked copies; the region's own are not read again
  std::vector<std::uint32_t> rounds;   // of each group: what its word said when our last round ended
  std::vector<std::uint32_t> written;  // of each channel, by us
  std::vector<std::uint32_t> read;

  GroupState& group(std::uint32_t i) const { return *reinterpret_cast<GroupState*>(base + layout.group_state[i]); }
  ChannelState& channel(std::uint32_t i) const {
    return *reinterpret_cast<ChannelState*>(base + layout.channel_state[i]);
  }
  std::byte* group_slot(std::uint32_t i, std::uint32_t member, std::uint32_t round) const {
    return base + layout.group_slots[i] + (2 * member + (round / kRound) % 2) * layout.slot_bytes;
  }
  std::byte* channel_slot(std::uint32_t i, std::uint32_t count) const {
    return base + layout.channel_slots[i] + (count / kRound) % 2 * layout.slot_bytes;
  }
};

namespace {

// Few: with more ranks than cores, whoever spins keeps the one from running that it waits for.
constexpr int kPauses = 40;

std::uint64_t now_ns() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<std::uint64_t>(at.tv_sec) * 1000000000U + static_cast<std::uint64_t>(at.tv_nsec);
}

long futex(Word& word, int operation, std::uint32_t value, const timespec* timeout) {
  // Not FUTEX_PRIVATE: the waiters are processes.
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

void wake_all(Word& word) {
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

/// Waits while `word` says `old`. Acquire: pairs with the release of whoever changed it.
int wait_while(Word& word, std::uint32_t old, std::uint64_t until_ns) {
  for (int i = 0; i < kPauses; ++i) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if ((seen & kAborted) != 0) return GBX_ABORTED;
    if (seen != old) return GBX_OK;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  for (;;) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if ((seen & kAborted) != 0) return GBX_ABORTED;
    if (seen != old) return GBX_OK;
    const std::uint64_t now = now_ns();
    if (now >= until_ns) return GBX_TIMEOUT;
    const std::uint64_t left = until_ns - now;
    const timespec wait{static_cast<time_t>(left / 1000000000U), static_cast<long>(left % 1000000000U)};
    futex(word, FUTEX_WAIT, old, &wait);  // woken, changed, interrupted or late: looked at again above
  }
}

std::uint64_t deadline(std::uint32_t timeout_ms) {
  return now_ns() + std::uint64_t{timeout_ms} * 1000000U;
}

/// What every member has put into its slot of this round becomes readable to all. What it wrote before is released by
/// its arrival (acq_rel: the last one has acquired all others' slots) and acquired through `round`.
int meet(gbx_collective& self, std::uint32_t group, std::uint64_t until_ns) {
  GroupState& state = self.group(group);
  const std::uint32_t round = self.rounds[group];
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == self.layout.members[group]) {
    state.arrived.store(0, std::memory_order_relaxed);  // seen by the next round's members through `round`
    const std::uint32_t before = state.round.fetch_add(kRound, std::memory_order_acq_rel);
    wake_all(state.round);
    if ((before & kAborted) != 0) return GBX_ABORTED;
  } else if (const int failed = wait_while(state.round, round, until_ns); failed != GBX_OK) {
    return failed;
  }
  self.rounds[group] = round + kRound;
  return GBX_OK;
}

bool is_member(const gbx_collective* self, std::uint32_t group, std::uint32_t member) {
  return self != nullptr && group < self->layout.members.size() && member < self->layout.members[group];
}

bool is_channel(const gbx_collective* self, std::uint32_t channel) {
  return self != nullptr && channel < self->layout.channel_state.size();
}

}  // namespace

#define GBX_EXPORT extern "C" __attribute__((visibility("default")))

GBX_EXPORT std::uint64_t gbx_region_bytes(const std::uint32_t* members, std::uint32_t groups, std::uint32_t channels,
                                          std::uint64_t slot_bytes) {
  try {
    return layout_of({members, groups}, channels, slot_bytes).total;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

GBX_EXPORT int gbx_region_format(void* region, std::uint64_t bytes, const std::uint32_t* members, std::uint32_t groups,
                                 std::uint32_t channels, std::uint64_t slot_bytes) {
  const std::uint64_t needed = gbx_region_bytes(members, groups, channels, slot_bytes);
  if (needed == 0 || bytes < needed || region == nullptr) return GBX_WRONG;
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.groups = groups;
  header.channels = channels;
  header.slot_bytes = slot_bytes;
  std::copy_n(members, groups, header.members);
  std::memcpy(region, &header, sizeof(header));
  return GBX_OK;
}

GBX_EXPORT gbx_collective* gbx_open(void* region, std::uint64_t bytes) {
  if (region == nullptr || bytes < sizeof(Header)) return nullptr;
  Header header{};
  std::memcpy(&header, region, sizeof(header));
  if (header.magic != kMagic || header.version != kVersion || header.groups > kMostGroups) return nullptr;
  try {
    auto* self = new gbx_collective;
    self->base = static_cast<std::byte*>(region);
    self->layout = layout_of({header.members, header.groups}, header.channels, header.slot_bytes);
    if (self->layout.total == 0 || self->layout.total > bytes) {
      delete self;
      return nullptr;
    }
    self->rounds.assign(header.groups, 0);
    self->written.assign(header.channels, 0);
    self->read.assign(header.channels, 0);
    return self;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

GBX_EXPORT void gbx_close(gbx_collective* self) {
  delete self;
}

GBX_EXPORT int gbx_all_reduce(gbx_collective* self, std::uint32_t group, std::uint32_t member, float* data,
                              std::uint64_t count, std::uint32_t timeout_ms) {
  if (!is_member(self, group, member)) return GBX_WRONG;
  const std::uint64_t until = deadline(timeout_ms);
  const std::uint64_t most = self->layout.slot_bytes / sizeof(float);
  for (std::uint64_t at = 0; at < count; at += most) {
    const std::uint64_t now = std::min(most, count - at);
    const std::uint32_t round = self->rounds[group];
    std::memcpy(self->group_slot(group, member, round), data + at, now * sizeof(float));
    if (const int failed = meet(*self, group, until); failed != GBX_OK) return failed;
    float* const out = data + at;
    std::memcpy(out, self->group_slot(group, 0, round), now * sizeof(float));
    for (std::uint32_t other = 1; other < self->layout.members[group]; ++other) {
      const auto* const add = reinterpret_cast<const float*>(self->group_slot(group, other, round));
      for (std::uint64_t i = 0; i < now; ++i) out[i] += add[i];
    }
  }
  return GBX_OK;
}

GBX_EXPORT int gbx_all_gather(gbx_collective* self, std::uint32_t group, std::uint32_t member, const void* data,
                              std::uint64_t bytes, void* out, std::uint32_t timeout_ms) {
  if (!is_member(self, group, member)) return GBX_WRONG;
  const std::uint64_t until = deadline(timeout_ms);
  const std::uint64_t most = self->layout.slot_bytes;
  for (std::uint64_t at = 0; at < bytes; at += most) {
    const std::uint64_t now = std::min(most, bytes - at);
    const std::uint32_t round = self->rounds[group];
    std::memcpy(self->group_slot(group, member, round), static_cast<const std::byte*>(data) + at, now);
    if (const int failed = meet(*self, group, until); failed != GBX_OK) return failed;
    for (std::uint32_t other = 0; other < self->layout.members[group]; ++other) {
      std::memcpy(static_cast<std::byte*>(out) + other * bytes + at, self->group_slot(group, other, round), now);
    }
  }
  return GBX_OK;
}

GBX_EXPORT int gbx_barrier(gbx_collective* self, std::uint32_t group, std::uint32_t member, std::uint32_t timeout_ms) {
  if (!is_member(self, group, member)) return GBX_WRONG;
  return meet(*self, group, deadline(timeout_ms));
}

GBX_EXPORT int gbx_send(gbx_collective* self, std::uint32_t channel, const void* data, std::uint64_t bytes,
                        std::uint32_t timeout_ms) {
  if (!is_channel(self, channel)) return GBX_WRONG;
  const std::uint64_t until = deadline(timeout_ms);
  ChannelState& state = self->channel(channel);
  for (std::uint64_t at = 0; at < bytes; at += self->layout.slot_bytes) {
    const std::uint32_t written = self->written[channel];
    // Both slots full: the reader's last word was two pieces ago. Acquire: it has done with what we write over.
    if (const int failed = wait_while(state.read, written - 2 * kRound, until); failed != GBX_OK) return failed;
    std::memcpy(self->channel_slot(channel, written), static_cast<const std::byte*>(data) + at,
                std::min(self->layout.slot_bytes, bytes - at));
    state.written.fetch_add(kRound, std::memory_order_release);  // pairs with the reader's wait
    wake_all(state.written);
    self->written[channel] = written + kRound;
  }
  return GBX_OK;
}

GBX_EXPORT int gbx_receive(gbx_collective* self, std::uint32_t channel, void* data, std::uint64_t bytes,
                           std::uint32_t timeout_ms) {
  if (!is_channel(self, channel)) return GBX_WRONG;
  const std::uint64_t until = deadline(timeout_ms);
  ChannelState& state = self->channel(channel);
  for (std::uint64_t at = 0; at < bytes; at += self->layout.slot_bytes) {
    const std::uint32_t read = self->read[channel];
    if (const int failed = wait_while(state.written, read, until); failed != GBX_OK) return failed;
    std::memcpy(static_cast<std::byte*>(data) + at, self->channel_slot(channel, read),
                std::min(self->layout.slot_bytes, bytes - at));
    state.read.fetch_add(kRound, std::memory_order_release);  // pairs with the writer's wait
    wake_all(state.read);
    self->read[channel] = read + kRound;
  }
  return GBX_OK;
}

GBX_EXPORT void gbx_abort(gbx_collective* self) {
  if (self == nullptr) return;
  const auto end = [](Word& word) {
    word.fetch_or(kAborted, std::memory_order_acq_rel);
    wake_all(word);
  };
  for (std::uint32_t i = 0; i < self->layout.members.size(); ++i) end(self->group(i).round);
  for (std::uint32_t i = 0; i < self->layout.channel_state.size(); ++i) {
    end(self->channel(i).written);
    end(self->channel(i).read);
  }
}
