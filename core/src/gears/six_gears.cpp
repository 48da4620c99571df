#include "gearbox/gears/six_gears.hpp"

#include <limits>

namespace gearbox::gears {

namespace {

constexpr const char* kNames[kGears] = {"data parallel", "tensor ×2", "tensor ×4", "sequence", "pipeline", "hybrid"};

}  // namespace

std::optional<Layout> layout_of(std::uint8_t gear, std::uint32_t cards) {
  if (cards == 0 || cards > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  const auto all = static_cast<std::uint16_t>(cards);
  const auto part = [&](unsigned by) { return static_cast<std::uint16_t>(cards / by); };
  switch (gear) {
    case 1:
      return Layout{all, 1, 1, 1};
    case 2:
      if (cards % 2 != 0) return std::nullopt;
      return Layout{part(2), 2, 1, 1};
    case 3:
      if (cards % 4 != 0) return std::nullopt;
      return Layout{part(4), 4, 1, 1};
    case 4:
      return Layout{1, 1, all, 1};
    case 5:
      return Layout{1, 1, 1, all};
    case 6:
      if (cards != 4 && cards != 8) return std::nullopt;
      return Layout{1, 2, part(4), 2};
    default:
      return std::nullopt;
  }
}

std::optional<Layout> layout_of(std::uint8_t gear, std::uint32_t cards, const ModelShape& model) {
  const std::optional<Layout> layout = layout_of(gear, cards);
  if (!layout || model.layers == 0) return layout;
  if (layout->tensor > model.kv_heads || layout->pipeline > model.layers) return std::nullopt;
  return layout;
}

const char* gear_name(std::uint8_t gear) {
  return gear < 1 || gear > kGears ? "" : kNames[gear - 1];
}

std::string words_of(const Layout& layout) {
  std::string words;
  const auto add = [&](unsigned ways, const char* what) {
    if (ways > 1) words += (words.empty() ? "" : ", ") + std::string(what) + " ×" + std::to_string(ways);
  };
  add(layout.tensor, "tensor");
  add(layout.sequence, "sequence");
  add(layout.pipeline, "pipeline");
  if (layout.replicas == 1) return words.empty() ? "1 whole copy" : words;
  const std::string copies = std::to_string(layout.replicas);
  return words.empty() ? copies + " whole copies" : copies + " copies, each " + words;
}

}  // namespace gearbox::gears
