// settle.hpp: when is a change over, so that it can be read whole? Rules only; time and looks are passed in.
//
// A change is over when it has kept still for a moment and nobody has a file of it open for writing. Two kinds get
// longer: files that vanished, since many programs save by deleting and creating, and between the two there is a folder
// that says "all defaults" to whoever reads it then; and files that are written in place, perhaps piece by piece and
// closed in between. What is renamed into place is whole at once.
#pragma once

#include <chrono>
#include <optional>

#include "gearbox/base/clock.hpp"
#include "watch/files.hpp"

namespace gearbox::watch {

inline constexpr milliseconds kStill{100};       // unchanged for so long
inline constexpr milliseconds kStillSlow{1000};  // when something was gone meanwhile, or is written in place
inline constexpr milliseconds kAged{60};         // fresh time stamps (is_fresh) are looked at again after this

/// One look at the folders.
struct Look {
  Stamps stamps;
  Writers writers = Writers::none;  // of what changed: writers_of(stamps, settle.last_applied())
  bool fresh = false;               // is_fresh(stamps, wall clock)
};

struct Verdict {
  enum class What {
    unchanged,  // as it was when it was read last
    wait,       // look again at `look_again`, or when something stirs
    settled,    // read it now, then call applied() with these stamps, and look again: it may have changed meanwhile
  } what = What::unchanged;
  Instant look_again{};
};

/// Not thread-safe: one thread looks.
class Settle {
 public:
  /// `poll`: how long a file must keep still of which nobody can say whether it is being written.
  /// `slow`: how long what was gone or is written in place must keep still; less for files of which half a one is told
  /// from a whole one by what is in it. What is gone for good takes kStillSlow in any case.
  explicit Settle(milliseconds poll = milliseconds(1000), milliseconds slow = kStillSlow)
      : poll_(poll), slow_still_(slow) {}

  /// What was read and taken over, or refused: the same stamps are not told again. Give the stamps taken before the
  /// reading.
  void applied(Stamps stamps);
  /// The stamps given to applied(); empty before.
  const Stamps& last_applied() const { return applied_; }

  /// Takes in what was seen at `at`. The first look ever is a change.
  Verdict look(const Look& look, Instant at);

 private:
  milliseconds poll_, slow_still_;
  bool any_applied_ = false;
  Stamps applied_;
  std::optional<Stamps> changing_;  // the last look, when it differed from applied_
  Instant since_{};                 // of the first look that saw `changing_`
  bool slow_ = false;               // since the last applied state something was gone, or was written in place
};

}  // namespace gearbox::watch
