// leases.hpp: the right to lead, given to one holder at a time, with a term that rises with each new holder.
//
// The table `leases` beside the accounts has holder and term; how long a lease still lasts is counted on the
// monotonic clock of this process alone. After a restart nobody knows when the last renewal was: a lease that is found
// there lasts for one whole time to live more.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "central/accounts_place.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "sql/connection.hpp"

namespace gearbox::central {

struct LeaseAnswer {
  bool granted = false;
  std::uint64_t term = 0;  // of the one who holds it
  std::string holder;
  milliseconds left{0};  // until it ends unless it is renewed
};

/// One strand. The clock is passed in.
class Leases {
 public:
  static constexpr std::size_t kMost = 64;  // names

  /// Where the accounts are. Errors: those of the database.
  static Outcome<Leases> open(const AccountsPlace& place, Instant now);

  /// `term`: of the lease that is to be renewed; none: a new life of `holder`, which gets a term of its own, higher
  /// than `above` (a term that somebody has obeyed already, from before this database was lost). Who holds it may renew
  /// it also late, as long as nobody else got it. A new term is on disk before it is told. Errors: overloaded: too many
  /// names; those of the database.
  Outcome<LeaseAnswer> ask(const std::string& name, const std::string& holder, milliseconds ttl,
                           std::optional<std::uint64_t> term, Instant now, std::uint64_t above = 0);
  /// Given back before its time: another one may have it at once. Nothing when it is not `holder`'s with that term.
  void release(const std::string& name, const std::string& holder, std::uint64_t term, Instant now);

 private:
  struct Held {
    std::string holder;
    std::uint64_t term = 0;
    Instant until;
  };
  explicit Leases(std::unique_ptr<sql::Connection> database) : database_(std::move(database)) {}
  Outcome<void> write(const std::string& name, const Held& held, milliseconds ttl);

  std::unique_ptr<sql::Connection> database_;
  std::map<std::string, Held> held_;
};

/// The control command "lease": {"name"?, "holder", "ttl_ms", "term"?, "above"?, "release"?} → {"granted", "term",
/// "holder", "left_ms"}. Errors: bad_frame, bad_name, bad_input; those of ask().
Outcome<boost::json::object> lease_command(Leases& leases, const boost::json::object& request, Instant now);

}  // namespace gearbox::central
