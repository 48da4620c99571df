// gpu_page.hpp: the part of `broker status` about GPUs, for people.
#pragma once

#include <boost/json/object.hpp>

#include <string>

namespace gearbox::cli {

/// From the node's status: its GPUs, and the workers that are meant for them with where each sits, or why it waits.
/// Without an NVML one line says so. Empty: a node of a version that tells nothing. `bold`: titles in bold.
std::string gpu_page(const boost::json::object& node, bool bold);

}  // namespace gearbox::cli
