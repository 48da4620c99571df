// metrics_text.hpp: what the roles say of themselves, in the text format that Prometheus scrapes.
#pragma once

#include <boost/json/object.hpp>

#include <string>

namespace gearbox::cli {

/// `facts`: "supervisor", "central", "standby", "node", "observer", "executor", "scheduler": the status of each, null
/// when it does not answer; "groups": the observer's snapshot of each group; "links": its links to other hosts. All may
/// be missing. Returns the exposition format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): base units,
/// one HELP and TYPE for each metric, ends with a line end. A figure that nobody told is left out.
std::string metrics_text(const boost::json::object& facts);

}  // namespace gearbox::cli
