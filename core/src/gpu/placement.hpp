// placement.hpp: which GPU a worker gets. No state and no clock of its own: everything comes with the call.
//
// What is left on a GPU, in MB: its whole memory less the larger of
//   - the sum of the estimates of the workers that have a seat there (model.toml: memory_mb), and
//   - what NVML says is used, with what those workers have yet to claim: of one that was not ready when NVML was asked
//     its estimate, of one whose own use NVML tells whatever its estimate goes beyond that.
// A worker whose model names no memory_mb gets a GPU that no other has a seat on, and shares it with none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/devices.hpp"
#include "gpu/gpu.hpp"

namespace gearbox::gpu {

/// What a worker's process is started with.
struct Seat {
  std::vector<std::string> gpus;       // UUIDs; an index where no UUID is known; empty: none was chosen
  std::optional<std::string> visible;  // its CUDA_VISIBLE_DEVICES; nothing: as it is in the broker's own environment
  std::string device;                  // for the model's load(): what is visible counts from 0
};

/// A worker that has a seat.
struct Holder {
  std::vector<std::string> gpus;  // never empty
  std::uint64_t memory_mb = 0;    // all of them together; 0: unknown, each of them is its own
  int pid = 0;                    // 0: none yet
  bool settled = false;           // it was ready before the look was taken, so what it uses is among what is used
};

/// The same for several: an even part of it, rounded up.
std::uint64_t share_mb(const Holder& holder);

/// What is left on a GPU. Its memory must be known.
struct Left {
  std::uint64_t mb = 0;
  std::uint32_t holders = 0;  // how many have a seat there
  bool whole = false;         // one of them shares it with none
};
Left left_on(const Gpu& gpu, const Look& look, std::span<const Holder> holders);

struct Decision {
  std::optional<Seat> seat;  // nothing: it waits
  std::string why;           // it waits
  bool hopeless = false;     // nothing that the node's workers do could change that
};

/// Once an answer is so old, NVML is taken to answer no more. So long a start waits for the first one.
inline constexpr milliseconds kStale{10'000};

/// `model` is for the reason. A worker with "cuda" gets the GPU with most memory left, of equal ones the first, if its
/// estimate fits there. Listed ones get what they name, full or not, unless it is not there. Without an NVML nothing is
/// chosen: "cuda" starts as it is, listed ones by index. When NVML has stopped answering, "cuda" waits.
Decision decide(const Look& look, std::span<const Holder> holders, const Devices& devices, std::uint64_t memory_mb,
                std::string_view model, Instant now);

/// A worker that was started by an earlier node, with `visible` as its CUDA_VISIBLE_DEVICES: the GPUs that it has.
/// Where it was not the node that set them, none.
std::vector<std::string> gpus_in(const Devices& devices, std::string_view visible);

/// Why such a worker cannot stay where it is; empty: it can, or nobody knows better.
std::string misplaced(const Look& look, const Devices& devices, std::string_view visible);

}  // namespace gearbox::gpu
