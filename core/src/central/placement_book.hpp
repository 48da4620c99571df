// placement_book.hpp: why a device was sent to a node: what central knew of each node at that moment, who chose, and
// what was answered. Kept for the last placements. One strand.
#pragma once

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "explain/trace.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

/// One node that knows the task, as it was seen at a placement.
struct NodeSeen {
  std::string node;
  std::uint32_t queued = 0, running = 0;  // as it reported
  std::uint32_t offered = 0;              // devices sent there since that report
  std::uint32_t capacity = 0;             // workers of the scarcest of the task's models
  std::uint64_t p95_us = 0;               // of all its steps together
  std::uint64_t report_age_ms = 0;
  std::string obstacle;  // why it was no candidate; empty: it was one
};

struct PlacementNote {
  static constexpr std::size_t kNodes = 16;  // seen and kept; further ones are counted, the chosen one is always kept

  PublicKey device;
  std::string user, task;
  std::uint32_t tenant = 0;
  std::int64_t at_unix_ms = 0;  // on central's clock, for people
  std::string config;           // digest of what was in force
  std::vector<NodeSeen> seen;
  std::uint32_t left_out = 0;
  std::string chosen;             // the node's name; empty: none
  explain::ChooserPtr chooser;    // which build of the balancer was asked; null: none was
  bool stood_in = false;          // it failed, or named nobody: the least loaded was taken
  bool ignoring_offered = false;  // each was at its limit with the devices just sent there, not by its own report

  void see(NodeSeen node);
  /// After all were seen.
  void choose(NodeSeen node);
};

class PlacementBook {
 public:
  static constexpr std::size_t kMost = 4096;  // the oldest is forgotten for one more: a few MB

  /// `start_unix_ms`: numbers of another central's life do not come again.
  explicit PlacementBook(std::int64_t start_unix_ms) : next_(static_cast<std::uint64_t>(start_unix_ms) * 1000) {}

  /// Returns its number, which travels in the ticket; never 0.
  std::uint64_t add(PlacementNote note);
  /// Errors: not_found: it is too long ago, or another central gave that number.
  Outcome<boost::json::object> facts(std::uint64_t number) const;

 private:
  std::uint64_t next_;  // of the next note; those that are kept have the numbers before it
  std::deque<PlacementNote> notes_;
};

}  // namespace gearbox::central
