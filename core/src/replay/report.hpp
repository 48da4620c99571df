// report.hpp: what a comparison gave, for programs and for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/experiment.hpp"
#include "replay/hindsight.hpp"

namespace gearbox::replay {

/// Everything referred to outlives it.
struct Report {
  const Experiment& experiment;
  const std::vector<Scored>& contenders;
  const std::optional<Clairvoyant>& bound;
  std::string traffic;  // as the command line has it
};

/// "19,366 requests in 58 min of AzureLLMInferenceTrace_conv.csv on mixed-8 (8 nodes, 64 cards), llm-7b, 5 seeds"
std::string headline_of(const Report& report);

/// All figures with their intervals, the shifts of the first seed, what was held back, and the simulator's speed.
std::string json_of(const Report& report);

/// One HTML file with everything in it: figures, distributions, load and gears over time. Nothing is fetched.
std::string html_of(const Report& report);

}  // namespace gearbox::replay
