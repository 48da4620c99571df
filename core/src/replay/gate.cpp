#include "replay/gate.hpp"

#include <algorithm>

namespace gearbox::replay {

std::vector<Tolerance> usual_tolerances(double share) {
  constexpr double kSlackTime = 0.002;    // seconds
  constexpr double kSlackToken = 0.0005;  // seconds
  return {{"mean_s", share, kSlackTime, true},
          {"p50_s", share, kSlackTime, true},
          {"p95_s", share, kSlackTime, true},
          {"p99_s", share, kSlackTime, true},
          {"first_token_p99_s", share, kSlackTime, true},
          {"per_token_p99_s", share, kSlackToken, true},
          {"requests_per_s", share, 0, false},
          {"good_share", share, 0.001, false},
          {"saturation_requests_per_s", share, 0, false},
          {"refused", 0, 0, true},
          {"unfinished", 0, 0, true}};
}

std::vector<Verdict> judge(const Scored& candidate, const Scored& against, const std::vector<Tolerance>& tolerances) {
  const auto has = [](const Scored& scored, const std::string& name) {
    return std::any_of(scored.figures.begin(), scored.figures.end(),
                       [&](const auto& each) { return each.first == name; });
  };
  std::vector<Verdict> verdicts;
  for (const Tolerance& tolerance : tolerances) {
    if (!has(candidate, tolerance.figure) || !has(against, tolerance.figure)) continue;
    Verdict verdict;
    verdict.tolerance = tolerance;
    verdict.candidate = candidate.figure(tolerance.figure);
    verdict.against = against.figure(tolerance.figure);
    verdict.worse = tolerance.less_is_better
                        ? verdict.candidate > verdict.against * (1 + tolerance.share) + tolerance.slack
                        : verdict.candidate < verdict.against * (1 - tolerance.share) - tolerance.slack;
    verdicts.push_back(verdict);
  }
  return verdicts;
}

bool passes(const std::vector<Verdict>& verdicts) {
  return std::none_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.worse; });
}

}  // namespace gearbox::replay
