// hours.hpp: spans of the day, as the configuration writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gearbox::config {

inline constexpr unsigned kMinutesOfDay = 24 * 60;

/// Minutes of the day, local time; `until` below `from` goes over midnight. Equal: the whole day.
struct Hours {
  std::uint16_t from = 0;
  std::uint16_t until = 0;
};

/// "22:00-06:00"; nothing when it is no such span.
std::optional<Hours> read_hours(std::string_view text);

}  // namespace gearbox::config
