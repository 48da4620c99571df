// explain_page.hpp: the node's facts of one request as a page for people.
#pragma once

#include <boost/json/object.hpp>

#include <string>

namespace gearbox::cli {

/// `facts`: all pieces of the node's answer to "explain" brought together (explain/json.hpp), and central's under
/// "placement" when there are any.
std::string explain_page(const boost::json::object& facts, bool bold);

}  // namespace gearbox::cli
