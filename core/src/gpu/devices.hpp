// devices.hpp: the value of a worker's `devices`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gearbox::gpu {

struct Devices {
  enum class Kind {
    unnamed,  // "": nothing is set
    cpu,      // "cpu": no GPU is visible
    any,      // "cuda": one GPU, which the node chooses
    listed,   // "cuda:1", "cuda:0,cuda:2": just these
  };
  Kind kind = Kind::unnamed;
  std::vector<std::uint32_t> indexes;  // of listed, as written: NVML's numbers; none twice
};

/// Nothing: that is no value of `devices`.
std::optional<Devices> read_devices(std::string_view text);

}  // namespace gearbox::gpu
