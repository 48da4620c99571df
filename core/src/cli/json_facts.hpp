// json_facts.hpp: reading the status answers of the roles, which may be of a version beside ours: what is missing is
// empty.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// Errors: bad_frame.
Outcome<boost::json::object> parse_object(std::string_view text);

std::string text_in(const boost::json::object& object, std::string_view key);  // escaped for a terminal
std::uint64_t number_in(const boost::json::object& object,
                        std::string_view key);  // 0 when missing, negative or no number
bool truth_in(const boost::json::object& object, std::string_view key);
const boost::json::array& list_in(const boost::json::object& object, std::string_view key);
const boost::json::object& object_in(const boost::json::object& object, std::string_view key);

/// On stdout, with a line end.
void print_json(const boost::json::value& value);

}  // namespace gearbox::cli
