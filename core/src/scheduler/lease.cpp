#include "scheduler/lease.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::scheduler {

void LeaseKeeper::answered(const Outcome<LeaseAnswer>& answer, Instant asked) {
  if (!answer) {
    // What was granted lasts until its end: the store may be away for a moment.
    problem_ = escaped(describe(answer.error()));
    return;
  }
  problem_.clear();
  leader_ = answer.value().holder;
  leaders_term_ = answer.value().term;
  if (!answer.value().granted) {
    term_.reset();
    return;
  }
  term_ = answer.value().term;
  until_ = after(asked, ttl_);
}

void LeaseKeeper::outranked(std::uint64_t term) {
  above_ = std::max(above_, term);
  term_.reset();
}

void LeaseKeeper::moved() {
  if (term_) outranked(*term_);
  leader_.clear();
  leaders_term_ = 0;
  problem_ = "the store of leases has just been changed";
}

}  // namespace gearbox::scheduler
