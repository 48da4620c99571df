// gear_page.hpp: groups, shifts and decisions as pages for people.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>

namespace gearbox::cli {

/// `facts`: {"groups": [observer's facts, each with the executor's under "record"], "scheduler": status or null,
/// "missing": [{"role", "why"}]}
std::string groups_page(const boost::json::object& facts, bool bold);

/// Entries of the executor's history, newest first.
std::string shifts_page(const boost::json::array& shifts, bool bold);

/// Entries of the scheduler's book, newest first.
std::string decisions_page(const boost::json::array& decisions, bool bold);

/// A number that may be negative or broken; `fallback` when it is missing or no number.
double real_in(const boost::json::object& object, std::string_view key, double fallback);

}  // namespace gearbox::cli
