#include "gpu/placement.hpp"

#include <algorithm>

namespace gearbox::gpu {

namespace {

std::uint64_t mb(std::uint64_t bytes) {
  return bytes >> 20;
}

std::string called(const Gpu& gpu) {
  return "GPU " + std::to_string(gpu.index);
}

std::string name_of(const Gpu& gpu) {
  return gpu.uuid.empty() ? std::to_string(gpu.index) : gpu.uuid;
}

Seat seat_on(std::vector<std::string> gpus) {
  Seat seat;
  seat.visible.emplace();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string comma = i == 0 ? "" : ",";
    *seat.visible += comma + gpus[i];
    seat.device += comma + "cuda:" + std::to_string(i);
  }
  seat.gpus = std::move(gpus);
  return seat;
}

Decision waits(std::string why, bool hopeless = false) {
  Decision decision;
  decision.why = std::move(why);
  decision.hopeless = hopeless;
  return decision;
}

Decision sits(Seat seat) {
  Decision decision;
  decision.seat = std::move(seat);
  return decision;
}

/// Has NVML, which is there or may be, no answer that is new enough? Since when, for people.
std::optional<std::string> silence(const Look& look, Instant now) {
  if (look.sight == Sight::none || now - look.at <= kStale) return std::nullopt;
  const auto since = std::chrono::duration_cast<seconds>(now - look.at).count();
  return "NVML has not answered for " + std::to_string(since) + " s";
}

Decision decide_listed(const Look& look, const Devices& devices, Instant now) {
  const bool told = look.sight == Sight::seen && !silence(look, now);
  if (look.sight == Sight::not_yet && !silence(look, now)) return waits("waits for NVML's first answer");
  std::vector<std::string> gpus;
  for (const std::uint32_t index : devices.indexes) {
    if (!told) {
      gpus.push_back(std::to_string(index));
      continue;
    }
    const Gpu* const gpu = find(look, std::to_string(index));
    if (gpu == nullptr) {
      return waits("there is no GPU " + std::to_string(index) + ": NVML tells of " + std::to_string(look.gpus.size()),
                   true);
    }
    if (!gpu->error.empty()) return waits(called(*gpu) + ": " + gpu->error, true);
    gpus.push_back(name_of(*gpu));
  }
  return sits(seat_on(std::move(gpus)));
}

/// Why none of them could be chosen.
Decision none_fits(const Look& look, std::span<const Holder> holders, std::uint64_t memory_mb, std::string_view model) {
  if (look.gpus.empty()) return waits("NVML tells of no GPU", true);
  const Gpu* most = nullptr;
  const Gpu* largest = nullptr;
  Left most_left;
  std::string errors;
  for (const Gpu& gpu : look.gpus) {
    const std::string wrong = !gpu.error.empty() ? gpu.error : gpu.total_bytes == 0 ? "it tells no memory" : "";
    if (!wrong.empty()) {
      errors += (errors.empty() ? "" : "; ") + called(gpu) + ": " + wrong;
      continue;
    }
    if (largest == nullptr || gpu.total_bytes > largest->total_bytes) largest = &gpu;
    const Left left = left_on(gpu, look, holders);
    if (left.whole || (most != nullptr && left.mb <= most_left.mb)) continue;
    most = &gpu;
    most_left = left;
  }
  if (largest == nullptr) return waits("no GPU can be used: " + errors, true);
  const std::string others = errors.empty() ? "" : "; " + errors;
  if (memory_mb == 0) {
    return waits("no GPU is without workers, and " + std::string(model) +
                 " names no memory_mb, so it needs a whole one" + others);
  }
  const std::string wanted = std::to_string(memory_mb) + " MB";
  if (mb(largest->total_bytes) < memory_mb) {
    return waits("no GPU has " + wanted + "; the largest: " + called(*largest) + " with " +
                     std::to_string(mb(largest->total_bytes)) + others,
                 true);
  }
  if (most == nullptr) {
    return waits("no GPU has " + wanted + " free: each is a worker's whose model names no memory_mb" + others);
  }
  return waits("no GPU has " + wanted + " free; most: " + called(*most) + " with " + std::to_string(most_left.mb) +
               others);
}

Decision decide_any(const Look& look, std::span<const Holder> holders, std::uint64_t memory_mb, std::string_view model,
                    Instant now) {
  if (look.sight == Sight::none) {
    Seat seat;
    seat.device = "cuda";
    return sits(std::move(seat));
  }
  if (const auto since = silence(look, now)) return waits(*since, true);
  if (look.sight == Sight::not_yet) return waits("waits for NVML's first answer");
  if (look.sight == Sight::lost) return waits("NVML: " + look.why, true);
  const Gpu* best = nullptr;
  std::uint64_t best_mb = 0;
  for (const Gpu& gpu : look.gpus) {
    if (!gpu.error.empty() || gpu.total_bytes == 0) continue;
    const Left left = left_on(gpu, look, holders);
    const bool fits = memory_mb == 0 ? left.holders == 0 : !left.whole && left.mb >= memory_mb;
    if (!fits || (best != nullptr && left.mb <= best_mb)) continue;
    best = &gpu;
    best_mb = left.mb;
  }
  if (best == nullptr) return none_fits(look, holders, memory_mb, model);
  return sits(seat_on({name_of(*best)}));
}

}  // namespace

std::uint64_t share_mb(const Holder& holder) {
  return (holder.memory_mb + holder.gpus.size() - 1) / holder.gpus.size();
}

Left left_on(const Gpu& gpu, const Look& look, std::span<const Holder> holders) {
  Left left;
  std::uint64_t estimated = 0;
  std::uint64_t to_come = 0;
  for (const Holder& holder : holders) {
    const bool here = std::any_of(holder.gpus.begin(), holder.gpus.end(),
                                  [&](const std::string& name) { return find(look, name) == &gpu; });
    if (!here) continue;
    ++left.holders;
    left.whole = left.whole || holder.memory_mb == 0;
    const std::uint64_t share = share_mb(holder);
    estimated += share;
    const auto own = std::find_if(gpu.processes.begin(), gpu.processes.end(), [&](const Process& process) {
      return holder.pid != 0 && process.pid == holder.pid && process.used_bytes;
    });
    if (own != gpu.processes.end()) {
      to_come += share - std::min(share, mb(*own->used_bytes));
    } else if (!holder.settled) {
      to_come += share;
    }
  }
  const std::uint64_t taken = std::max(estimated, mb(gpu.used_bytes) + to_come);
  left.mb = mb(gpu.total_bytes) - std::min(mb(gpu.total_bytes), taken);
  return left;
}

Decision decide(const Look& look, std::span<const Holder> holders, const Devices& devices, std::uint64_t memory_mb,
                std::string_view model, Instant now) {
  Seat seat;
  switch (devices.kind) {
    case Devices::Kind::unnamed:
      break;
    case Devices::Kind::cpu:
      seat.visible = "";
      seat.device = "cpu";
      break;
    case Devices::Kind::any:
      return decide_any(look, holders, memory_mb, model, now);
    case Devices::Kind::listed:
      return decide_listed(look, devices, now);
  }
  return sits(std::move(seat));
}

std::vector<std::string> gpus_in(const Devices& devices, std::string_view visible) {
  std::vector<std::string> gpus;
  if (devices.kind != Devices::Kind::any && devices.kind != Devices::Kind::listed) return gpus;
  for (std::string_view rest = visible; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    gpus.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  const std::size_t expected = devices.kind == Devices::Kind::any ? 1 : devices.indexes.size();
  if (gpus.size() != expected) gpus.clear();  // it was there before: started where there was no NVML
  return gpus;
}

std::string misplaced(const Look& look, const Devices& devices, std::string_view visible) {
  if (look.sight != Sight::seen) return {};
  const std::vector<std::string> gpus = gpus_in(devices, visible);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Gpu* const gpu = find(look, gpus[i]);
    if (gpu == nullptr) return "its GPU " + gpus[i] + " is not there any more";
    if (!gpu->error.empty()) return "its " + called(*gpu) + ": " + gpu->error;
    if (devices.kind == Devices::Kind::listed && gpu->index != devices.indexes[i]) {
      return "its GPU " + gpus[i] + " has become number " + std::to_string(gpu->index);
    }
  }
  return {};
}

}  // namespace gearbox::gpu
