#include "scheduler/trust.hpp"

#include <algorithm>

namespace gearbox::scheduler {

void Trust::add(const LinkSample& sample, const TrustRules& rules) {
  const double seen = sample.failed ? 0.0 : std::clamp(sample.bandwidth_share, 0.0, 1.0);
  value_ += (seen < value_ ? rules.weight : rules.earned) * (seen - value_);
  if (value_ < rules.low) distrusted_ = true;
  if (value_ > rules.high) distrusted_ = false;
}

}  // namespace gearbox::scheduler
