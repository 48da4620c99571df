// versions.hpp: which of two versions of a model is newer.
#pragma once

#include <compare>
#include <string_view>

namespace gearbox::config {

/// Part by part between the dots, numbers as numbers ("1.10" after "1.9"); a part that is no number comes before one
/// that is.
std::strong_ordering compare_versions(std::string_view a, std::string_view b);

}  // namespace gearbox::config
