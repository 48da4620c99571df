// trust.hpp: how far a node's links may be relied on, from what was measured.
#pragma once

#include "gearbox/base/clock.hpp"

namespace gearbox::scheduler {

struct TrustRules {
  double weight = 0.2;   // of a new sample when it is worse; trust is lost fast
  double earned = 0.03;  // when it is better; and comes back slowly
  double low = 0.5;      // below it a node is distrusted
  double high = 0.8;     // above it it is trusted again
};

/// One probe of a node's links.
struct LinkSample {
  bool failed = false;
  double bandwidth_share = 1;  // measured ÷ usual
};

/// Threads: one at a time. Plain value: it can be kept and restored.
class Trust {
 public:
  /// Counts one probe.
  void add(const LinkSample& sample, const TrustRules& rules);
  double value() const { return value_; }
  /// Low gears in a pool of its own. Two thresholds, so that it does not swing.
  bool distrusted() const { return distrusted_; }

 private:
  double value_ = 1;
  bool distrusted_ = false;
};

}  // namespace gearbox::scheduler
