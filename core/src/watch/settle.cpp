#include "watch/settle.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::watch {

void Settle::applied(Stamps stamps) {
  applied_ = std::move(stamps);
  any_applied_ = true;
  changing_.reset();
  slow_ = false;
}

Verdict Settle::look(const Look& look, Instant at) {
  using What = Verdict::What;
  if (any_applied_ && look.stamps == applied_) {
    changing_.reset();
    slow_ = false;
    return {What::unchanged, {}};
  }
  if (!changing_ || look.stamps != *changing_) {
    changing_ = look.stamps;
    since_ = at;
  }
  const bool is_gone = vanished(applied_, look.stamps);
  slow_ = slow_ || is_gone || written_in_place(applied_, look.stamps);
  milliseconds still = is_gone ? kStillSlow : slow_ ? slow_still_ : kStill;
  if (look.writers == Writers::unknown) still = std::max(still, poll_);
  if (at < after(since_, still)) return {What::wait, after(since_, still)};
  // The end of writing is an event of its own; where events are lost, the next poll sees it.
  if (look.writers == Writers::some) return {What::wait, after(at, poll_)};
  if (look.fresh) return {What::wait, after(at, kAged)};
  return {What::settled, at};
}

}  // namespace gearbox::watch
