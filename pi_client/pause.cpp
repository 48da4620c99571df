#include "pause.hpp"

#include <algorithm>
#include <array>

#include "gearbox/base/bytes.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::client {

milliseconds pause_before_retry(unsigned tries, milliseconds shortest, milliseconds longest, milliseconds advised) {
  const milliseconds ceiling = std::min(longest, milliseconds(shortest.count() << std::min(tries, 20U)));
  std::array<std::byte, 8> random{};
  link::fill_random(random);
  const std::int64_t half = std::max<std::int64_t>(1, ceiling.count() / 2);
  const auto jitter =
      static_cast<std::int64_t>(load_le<std::uint64_t>(random.data()) % static_cast<std::uint64_t>(half + 1));
  // Advice is a lower bound, with the same spread on top: all who were told the same must not come back together.
  return std::max(advised, milliseconds(ceiling.count() - half)) + milliseconds(jitter);
}

}  // namespace gearbox::client
