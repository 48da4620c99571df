// six_gears.hpp: the six gears as layouts of a number of cards; the same as the elastic engine makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gearbox/gears/layout.hpp"

namespace gearbox::gears {

inline constexpr std::uint8_t kGears = 6;

/// Nothing when the gear cannot be made of so many cards: 2 needs an even number, 3 a multiple of four, 6 four or
/// eight.
std::optional<Layout> layout_of(std::uint8_t gear, std::uint32_t cards);

/// The same, and the model can be cut so: each card has a head of its own, each stage a layer.
std::optional<Layout> layout_of(std::uint8_t gear, std::uint32_t cards, const ModelShape& model);

/// "tensor ×2"; "" for a number that is none of the six.
const char* gear_name(std::uint8_t gear);

/// "2 replicas of tensor ×2"
std::string words_of(const Layout& layout);

}  // namespace gearbox::gears
