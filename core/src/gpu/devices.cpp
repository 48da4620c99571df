#include "gpu/devices.hpp"

#include <algorithm>
#include <charconv>

namespace gearbox::gpu {

std::optional<Devices> read_devices(std::string_view text) {
  Devices devices;
  if (text.empty()) return devices;
  devices.kind = text == "cpu" ? Devices::Kind::cpu : text == "cuda" ? Devices::Kind::any : Devices::Kind::listed;
  if (devices.kind != Devices::Kind::listed) return devices;
  constexpr std::string_view kPrefix = "cuda:";
  constexpr std::size_t kMostDigits = 3;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (!one.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = one.substr(kPrefix.size());
    std::uint32_t index = 0;
    const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (wrong != std::errc() || end != digits.data() + digits.size() || digits.size() > kMostDigits) {
      return std::nullopt;
    }
    const bool twice = std::find(devices.indexes.begin(), devices.indexes.end(), index) != devices.indexes.end();
    if (twice) return std::nullopt;
    devices.indexes.push_back(index);
    if (comma == std::string_view::npos) return devices;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace gearbox::gpu
