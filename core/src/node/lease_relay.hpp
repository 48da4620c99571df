// lease_relay.hpp: what this host's scheduler asks of leases, on its way to a central on another host, and back.
//
// The scheduler asks at the node's control socket, again and again under one number until the answer is there; the link
// to central takes the question along with the next report.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::node {

/// One strand. The clock is passed in.
class LeaseRelay {
 public:
  /// The answer to the question of that "number", or {"pending": true}. A new number takes the place of the one before.
  /// Errors: what central says; bad_input: no number.
  Outcome<boost::json::object> ask(const boost::json::object& request, Instant now);
  /// A question that no central has been sent yet; it counts as sent from here on.
  std::optional<std::string> to_send(Instant now);
  /// Central has answered it.
  void told(const std::string& text, Instant now);
  /// Central has answered what came after the question, and so skipped it, or the connection is lost: it is over.
  void not_told(const Error& why);
  bool waits() const { return sent_; }

 private:
  std::uint64_t number_ = 0;
  std::string question_;  // empty: none
  bool sent_ = false;     // and not answered yet
  Instant asked_{}, answered_{};
  std::optional<Outcome<boost::json::object>> answer_;
};

}  // namespace gearbox::node
