#include <algorithm>

#include "config/config.hpp"
#include "config/versions.hpp"

namespace gearbox::config {

std::strong_ordering compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string_view part_a = a.substr(0, a.find('.'));
    const std::string_view part_b = b.substr(0, b.find('.'));
    a.remove_prefix(std::min(a.size(), part_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_b.size() + 1));
    const auto number = [](std::string_view part) {
      return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    std::strong_ordering order = std::strong_ordering::equal;
    if (number(part_a) && number(part_b)) {
      // By length without leading zeros, then by digits: no number is too long for that. A missing part counts as 0.
      const auto significant = [](std::string_view part) {
        return part.substr(std::min(part.find_first_not_of('0'), part.size()));
      };
      const std::string_view digits_a = significant(part_a);
      const std::string_view digits_b = significant(part_b);
      order =
          digits_a.size() != digits_b.size() ? digits_a.size() <=> digits_b.size() : digits_a.compare(digits_b) <=> 0;
    } else if (number(part_a) != number(part_b)) {
      order =
          number(part_a) ? std::strong_ordering::greater : std::strong_ordering::less;  // "1.0" is newer than "1.rc"
    } else {
      order = part_a.compare(part_b) <=> 0;
    }
    if (order != std::strong_ordering::equal) return order;
  }
  return std::strong_ordering::equal;
}

const model::Record* find_model(const Config& config, std::string_view model, std::string_view version) {
  const bool newest = version.empty() || version == "latest";
  const model::Record* found = nullptr;
  for (const model::Record& record : config.models) {
    if (record.name != model || (!newest && record.version != version)) continue;
    if (found == nullptr || compare_versions(record.version, found->version) > 0) found = &record;
  }
  return found;
}

}  // namespace gearbox::config
