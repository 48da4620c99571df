#include "config/unserved.hpp"

#include <algorithm>
#include <optional>

#include "config/versions.hpp"

namespace gearbox::config {

namespace {

/// What is missing for `step`; nothing when a worker runs what it asks for.
std::optional<std::string> what_is_missing(const Config& config, const StepConfig& step) {
  bool named = false;
  bool none_wanted = false;
  for (const WorkerConfig& worker : config.workers) {
    if (worker.model != step.model) continue;
    named = true;
    if (worker.count == 0) {
      none_wanted = true;
      continue;
    }
    const model::Record* const runs = find_model(config, worker.model, worker.version);
    if (runs != nullptr && admits(step.version, runs->version)) return std::nullopt;
  }
  if (none_wanted) return "the [[worker]] of model '" + step.model + "' has count = 0";
  if (!named) return "no [[worker]] names model '" + step.model + "'";
  return "no [[worker]] runs model '" + step.model + "' at version '" + step.version + "'";
}

}  // namespace

std::vector<Unserved> unserved_of(const Config& config) {
  std::vector<Unserved> found;
  for (const auto& [name, task] : config.tasks) {
    for (const StepConfig& step : task.steps) {
      std::optional<std::string> missing = what_is_missing(config, step);
      const bool known = std::any_of(found.begin(), found.end(), [&, task_name = name](const Unserved& other) {
        return other.task == task_name && other.model == step.model && other.version == step.version;
      });
      if (missing && !known) found.push_back({name, step.model, step.version, std::move(*missing)});
    }
  }
  return found;
}

}  // namespace gearbox::config
