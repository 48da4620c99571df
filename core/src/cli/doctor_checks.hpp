// doctor_checks.hpp: what a host must have for the broker to work: each check one finding, with advice.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/state_dir.hpp"

namespace gearbox::cli {

enum class Verdict { ok, warn, fail };

struct Finding {
  std::string check;  // "descriptors"
  Verdict verdict = Verdict::ok;
  std::string what;    // what was found
  std::string advice;  // what to do; empty when all is well
};

std::vector<Finding> check_kernel();
std::vector<Finding> check_descriptors(const config::Config& config);
std::vector<Finding> check_memory(const config::Config& config);
/// Starts each environment's Python and imports what its models' frameworks need; up to a minute each.
std::vector<Finding> check_environments(const config::Config& config, const config::StateDir& state);
/// Free, or ours: then the role that listens there says so itself.
std::vector<Finding> check_ports(const config::Config& config, const config::StateDir& state);
/// Of models whose ranks live on several hosts: what goes between them in the clear.
std::vector<Finding> check_ranks(const config::Config& config);
/// Nodes that [gears] names: does central know them, where it is on this host?
std::vector<Finding> check_gear_hosts(const config::Config& config, const config::StateDir& state);
std::vector<Finding> check_state_folder(const config::StateDir& state);
std::vector<Finding> check_clock();

}  // namespace gearbox::cli
