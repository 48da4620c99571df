// gear_questions.hpp: what a scheduler of another host may ask and order here: these four, member by member, and
// nothing else; above all nothing that is a person's to order.
//
//   {"to": "observer", "command": "snapshot", "after"}
//   {"to": "executor", "command": "groups", "after", "term"}
//   {"to": "executor", "command": "shift", "group", "gear", "term", "origin": "scheduler", "decision"}
//   {"to": "group", "group", "op": "price", "gear"}
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::node {

struct GearQuestion {
  enum class To : std::uint8_t { observer, executor, group };
  To to{};
  std::string group;           // for To::group
  boost::json::object passed;  // made here, of what was checked
};

/// `leader`: the node whose scheduler asks; it is written down with what it orders. Errors: bad_frame, bad_name;
/// not_allowed: it is none of the four.
Outcome<GearQuestion> read_gear_question(std::string_view text, const std::string& leader);

}  // namespace gearbox::node
