// recording_facts.hpp: the control command "recording": what came lately, piece by piece.
#pragma once

#include <boost/json/object.hpp>

#include "gearbox/base/outcome.hpp"
#include "recording/recorder.hpp"

namespace gearbox::node {

///   {"command": "recording", "last_us": 3600000000}
///     → {"node", "zero_us", "since_us", "begins_unix_ms", "lines", "requests", "forgotten", "next"}
///   {"command": "recording", "zero_us", "since_us", "from": next}  → the next piece; "next" 0: there are no more
/// "lines" are of a recording (recorder.hpp), without its head. "last_us": of those only that arrived within that time;
/// 0 or missing: of all. "payloads": true: with the columns that name their files, one for each number. zero_us and
/// since_us are on the node's monotonic clock. "forgotten": requests since its start of which it has no line any more.
/// Errors: bad_input (not numbers; nothing is kept).
Outcome<boost::json::object> answer_recording(const recording::Recorder& recorder, const boost::json::object& request,
                                              const std::string& node);

///   {"command": "recorded_payload", "number": 17, "from": 0}  → {"bytes", "size", "next"}
/// What was in that request, piece by piece: "bytes" are of it from there on, in hexadecimal digits; "next" 0: there
/// are no more. Errors: bad_input (no numbers); not_found (it is not kept, or not any more).
Outcome<boost::json::object> answer_recorded_payload(const recording::Recorder& recorder,
                                                     const boost::json::object& request);

}  // namespace gearbox::node
