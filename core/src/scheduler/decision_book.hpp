// decision_book.hpp: the last decisions with what they were made of, for `broker gear explain`.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "scheduler/decision.hpp"
#include "scheduler/view.hpp"

namespace gearbox::scheduler {

/// A decision as it is kept: the same one again and again is one entry.
struct Noted {
  std::uint64_t number = 0;
  std::string group;
  Decision decision;
  std::uint64_t term = 0;
  std::uint64_t shift_number = 0;  // of the executor's history; 0: none was ordered
  std::int64_t first_unix_ms = 0, last_unix_ms = 0;
  std::uint64_t times = 1;
  boost::json::object inputs;  // of the first time
};

boost::json::object to_json(const Noted& noted);

/// Threads: one at a time.
class DecisionBook {
 public:
  static constexpr std::size_t kKept = 1000;

  /// A decision that was held back as the group's last one was is only counted there.
  void add(Noted noted, std::int64_t unix_ms);
  const std::deque<Noted>& all() const { return book_; }  // oldest first
  std::uint64_t added() const { return last_; }

  /// A page, newest first: of `group` (GROUP, on any host, or NODE/GROUP; empty: all), behind the one with number
  /// `after` (empty: from the newest).
  boost::json::object page(const std::string& group, const std::string& after) const;

 private:
  std::deque<Noted> book_;
  std::uint64_t last_ = 0;
};

/// The figures that a decision was made of.
boost::json::object inputs_of(const View& view, plugin::GroupId group, const gear_facts::Snapshot& snapshot);

}  // namespace gearbox::scheduler
