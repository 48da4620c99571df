// replay_page.hpp: the figures of contenders as tables for people.
#pragma once

#include <string>
#include <vector>

#include "replay/experiment.hpp"

namespace gearbox::cli {

/// Times, rates, then shifts and gears: one row for each contender.
std::string replay_page(const std::vector<replay::Scored>& all, bool bold);

/// "1.24 s", "37.2 ms"
std::string seconds_text(double seconds);

}  // namespace gearbox::cli
