// coordination.hpp: a Coordination gives a named lease to one holder at a time, with a term that only rises.
//
// Who holds the lease may lead. It believes so for `ttl` from the moment that it asked, on its own monotonic clock; the
// store lets nobody else have the lease before that, by a clock of its own that must run about as fast, and is never
// compared with the holder's. What still slips through (a holder that stood still between looking at its clock and
// giving an order) is refused where orders are obeyed: each carries its term, and one of an older term is not taken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kCoordinationApi = 1;  // raise on any change to this file

/// What a holder asks for. Texts are valid during the call only.
struct LeaseWish {
  std::string_view name;    // of the lease: a name in the sense of is_name()
  std::string_view holder;  // who asks, likewise
  /// Where it lives: the same for each life of this holder, another one for everybody else, also for one that is
  /// called alike by mistake. At most 256 bytes of printable ASCII.
  std::string_view home;
  milliseconds ttl{0};      // 200 ms to 10 minutes
  std::uint64_t term = 0;   // that it was granted, and wants to keep; 0: it holds nothing
  std::uint64_t above = 0;  // somebody has obeyed this term already: a new one must be higher
};

/// Who holds a lease.
struct LeaseAnswer {
  bool granted = false;    // it is the asker's, for `ttl` from the moment that it began to ask
  std::uint64_t term = 0;  // of the one who holds it; 0: nobody ever did
  std::string holder;      // empty: nobody
  milliseconds left{0};    // until it ends unless it is renewed; 0: not known, or nobody holds it
};

/// Threads: made on any thread; its calls come from one thread that is this object's own, one at a time, and may block
/// until their deadline. make() must neither block nor touch anything outside (it also runs when a plugin is checked).
/// A call whose deadline is over already gives Errc::timeout at once and touches nothing.
/// State of its own may be lost at any time: a swap, other options or a restart give a new object, which must be able
/// to renew what the one before it was granted.
/// Errors of all calls: unreachable, timeout: the store did not answer, or cannot answer now (its majority is gone);
/// nothing is granted then, and what was granted before lasts to its end. not_allowed: it knows us, and says no.
class Coordination {
 public:
  virtual ~Coordination() = default;
  /// With `wish.term`: keeps the lease under that term, or, where the store has lost it and nobody else has got it,
  /// under the same or a higher one. Without: gets it with a term above all that were ever granted under this name, and
  /// above `wish.above`, on the store's disks before it is told. A former life of the same holder at the same home is
  /// replaced at once. That somebody else holds it is an answer (`granted` is false), no error.
  virtual Outcome<LeaseAnswer> ask(const LeaseWish& wish, Instant deadline) = 0;
  /// Gives it back before its time, so that the next one need not wait: `wish.term` of `wish.holder`. Nothing happens
  /// when it is not that one's.
  virtual Outcome<void> release(const LeaseWish& wish, Instant deadline) = 0;
  /// Who holds it; `granted` is false.
  virtual Outcome<LeaseAnswer> look(std::string_view name, Instant deadline) = 0;
};

template <>
struct KindTraits<Kind::coordination> {
  using Class = Coordination;
  static constexpr std::uint32_t kApi = kCoordinationApi;
};

}  // namespace gearbox::plugin
