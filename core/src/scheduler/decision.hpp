// decision.hpp: what became of a proposal, with everything that led there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/gear.hpp"

namespace gearbox::scheduler {

/// Who wants a shift; a later one has more to say.
enum class Origin : std::uint8_t { node = 1, scheduler = 2, person = 3 };

std::string_view name_of(Origin origin);

/// Shares of a step's time, which add up to 1; all 0 when nothing is known.
struct Assessment {
  double compute = 0;        // matrix products, and attention over prompts
  double memory = 0;         // reading weights and caches
  double communication = 0;  // between cards
  double rest = 0;           // the host, kernels' starts, stages that wait
  std::string figures;       // one line: what they were computed from
};

struct Decision {
  plugin::GroupId group{};
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  Origin origin = Origin::scheduler;
  bool shift = false;  // false: the governor holds it back
  bool dry_run = false;
  bool urgent = false;
  std::string rule;      // the policy's
  std::string reason;    // the policy's, with its figures
  std::string governor;  // the governor's rule: "pass", or the one that held it back
  std::string why;       // the governor's reason, with its figures
  std::uint8_t runner_up = 0;
  std::vector<plugin::PricedGear> priced;
  Assessment assessment;
};

}  // namespace gearbox::scheduler
