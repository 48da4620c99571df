// gate.hpp: is a candidate not worse than what is in force, within tolerances?
#pragma once

#include <string>
#include <vector>

#include "replay/experiment.hpp"

namespace gearbox::replay {

struct Tolerance {
  std::string figure;
  double share = 0;  // by which it may be worse, of the one in force
  double slack = 0;  // and so much beside, in the figure's unit: what nobody would notice
  bool less_is_better = true;
};

/// What is held against each other unless other shares are given: times, throughput, goodput, and what is not served.
std::vector<Tolerance> usual_tolerances(double share);

struct Verdict {
  Tolerance tolerance;
  double against = 0, candidate = 0;
  bool worse = false;
};

/// One for each tolerance whose figure both have. Equal seeds are compared by their means.
std::vector<Verdict> judge(const Scored& candidate, const Scored& against, const std::vector<Tolerance>& tolerances);

/// True when none is worse.
bool passes(const std::vector<Verdict>& verdicts);

}  // namespace gearbox::replay
