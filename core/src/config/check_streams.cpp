// Where a model that streams may stand in a task.
#include <algorithm>

#include "config/reading.hpp"

namespace gearbox::config {

void check_streams(const toml::Table& root, const TaskConfig& task, const Config& config) {
  const std::vector<toml::Table> tables = root.tables("step", task.steps.size());
  const StepConfig* streams = nullptr;
  for (std::size_t i = 0; i < task.steps.size(); ++i) {
    const StepConfig& step = task.steps[i];
    const model::Record* const record = find_model(config, step.model, step.version);
    if (record == nullptr || !record->stream) continue;  // one that is unknown has been told already
    if (!step.for_each.empty()) {
      tables[i].fault("for_each", "model '" + step.model + "' streams its answers: it runs once in a request");
    }
    if (streams != nullptr) {
      tables[i].fault("model", "'" + step.model + "' streams its answers, as step '" + streams->name +
                                   "' does already: one step of a task may");
    }
    streams = &step;
  }
  if (streams == nullptr) return;
  for (std::size_t i = 0; i < task.steps.size(); ++i) {
    for (const auto& [input, source] : task.steps[i].inputs) {
      if (source.step != streams->name) continue;
      const auto inputs = tables[i].table("inputs");
      if (inputs) {
        inputs->fault(input, "comes from step '" + streams->name + "', whose model '" + streams->model +
                                 "' streams its answers: they can go to the task's result only");
      }
    }
  }
}

}  // namespace gearbox::config
