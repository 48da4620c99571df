// gear_commands.hpp: the parts of add_gear_commands, and what they share.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <string_view>

#include "cli/context.hpp"

namespace gearbox::cli {

/// gear set, release, allow
void add_gear_orders(CLI::App& gear, CliContext& context);

/// One command to observer, scheduler or executor. Errors: unreachable, in words for people; what the role answered.
Outcome<boost::json::object> ask_gear_role(const config::StateDir& state, std::string_view role,
                                           boost::json::object command);

/// All pages of a list, `most` entries at most; `head`, when it is wanted: the first page without its list.
Outcome<boost::json::array> list_of_gear_role(const config::StateDir& state, std::string_view role,
                                              boost::json::object command, std::uint64_t most,
                                              boost::json::object* head = nullptr);

}  // namespace gearbox::cli
