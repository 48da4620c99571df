// steps_file.hpp: [[step]] and [result] as they stand in TOML: in tasks/NAME.toml, and in the file with which a device
// sends steps of its own. Types and ranges of single values are checked here; whether the steps are a graph that can
// run is the node's to say (config/graph.hpp).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/toml/document.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::steps {

inline constexpr std::size_t kMaxSteps = 64;  // of one task's file
inline constexpr std::uint32_t kMaxRetry = 5;
inline constexpr double kSmallestShare = 0.01;

struct StepList {
  std::vector<wire::StepSpec> steps;          // in the order of the file
  std::map<std::string, std::string> result;  // name in the answer ← source
};

/// Reads [[step]] and [result] of `root`; each fault is added to the document's. What is missing stays empty.
StepList read_steps(const toml::Table& root, std::size_t max_steps = kMaxSteps);

/// A device's file. The other keys of a task's file may stand in it and say nothing, so that such a file can be sent
/// as it is. Errors: bad_config, one line for each fault, with file, line and column.
Outcome<StepList> read_steps_file(const std::filesystem::path& file);

/// The models that the steps name, each once, as wire::Locate wants them: "NAME", or "NAME@VERSION".
std::vector<std::string> models_of(const std::vector<wire::StepSpec>& steps);

}  // namespace gearbox::steps
