// output.hpp: a Report as one line of JSON, or as text and a table for people. Pure: strings out, nothing printed.
#pragma once

#include <string>

#include "node_connection.hpp"
#include "report.hpp"

namespace gearbox::client {

/// One JSON object without a line end. Always valid JSON: text from outside that is not UTF-8 is escaped, numbers that
/// JSON does not know are strings. The keys are stable; see docs/pi_client.md.
std::string to_json(const Report& report);

/// One part of a streamed answer, the same way; "part" is its number from 0.
std::string part_json(const Report& so_far, const Part& part);

/// The result's lines, each ended: a BYTES tensor of text prints its elements, one per line, other tensors a short
/// preview. Control bytes are escaped, so that a result cannot steer the terminal.
std::string result_text(const Report& report);

/// "FILE: unknown_task: ...", ended.
std::string error_text(const Report& report);

/// Where the time went and how many bytes travelled, a few lines, ended.
std::string table(const Report& report);

}  // namespace gearbox::client
