// explain_page.hpp: the node's facts of one request as a page for people.
#pragma once

#include <boost/json/object.hpp>

#include <string>

namespace gearbox::cli {

/// `facts`: all pieces of the node's answer to "explain" brought together (explain/json.hpp), and central's under
/// "central" when there are any.
std::string explain_page(const boost::json::object& facts, bool bold);

/// Central's facts of one placement (central/placement_book.hpp).
std::string placement_text(const boost::json::object& central, bool bold);

}  // namespace gearbox::cli
