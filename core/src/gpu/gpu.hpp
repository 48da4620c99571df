// gpu.hpp: what is known of this host's GPUs at one moment. Plain values; they may cross threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"

namespace gearbox::gpu {

struct Process {
  int pid = 0;                              // as NVML counts: in a container it may be another one than ours
  std::optional<std::uint64_t> used_bytes;  // nothing: the driver does not tell
};

struct Gpu {
  std::uint32_t index = 0;                        // NVML's: in the order of PCI bus ids
  std::string uuid;                               // "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; empty: not told
  std::string name;                               // "NVIDIA H200"
  std::uint64_t total_bytes = 0, used_bytes = 0;  // both 0: not told
  std::optional<std::uint32_t> busy_percent;      // share of the last moments in which some kernel ran
  std::vector<Process> processes;                 // that compute on it, as far as that is told
  std::string error;                              // why no worker may be put there; empty: one may
};

/// Where the knowledge of GPUs comes from, and whether it comes.
enum class Sight {
  not_yet,  // nobody has answered yet
  none,     // there is no NVML here, or it never answered with anything but an error
  seen,
  lost,  // it has answered before, and now gives errors
};

struct Look {
  Sight sight = Sight::not_yet;
  std::string why;        // of none and lost
  Instant at{};           // when it was taken; of not_yet: since when an answer is awaited
  std::vector<Gpu> gpus;  // of seen: by index
};

/// The GPU that CUDA_VISIBLE_DEVICES calls `name`, a UUID or an index; null: the look does not have it.
const Gpu* find(const Look& look, std::string_view name);

}  // namespace gearbox::gpu
