// Where a model that streams may stand in a task.
#include "config/graph.hpp"

namespace gearbox::config {

void check_streams(const std::vector<GraphStep>& steps, const GraphFault& fault) {
  const StepConfig* streams = nullptr;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& [step, record] = steps[i];
    if (record == nullptr || !record->stream) continue;  // one that is unknown has been told already
    if (!step->for_each.empty()) {
      fault({i, "for_each"}, "model '" + step->model + "' streams its answers: it runs once in a request");
    }
    if (step->retry > 0) {
      fault({i, "retry"}, "model '" + step->model + "' streams its answers: what was delivered cannot begin anew");
    }
    if (streams != nullptr) {
      fault({i, "model"}, "'" + step->model + "' streams its answers, as step '" + streams->name +
                              "' does already: one step of a task may");
    }
    streams = step;
  }
  if (streams == nullptr) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& [input, source] : steps[i].config->inputs) {
      if (source.step != streams->name) continue;
      fault({i, "inputs." + input}, "comes from step '" + streams->name + "', whose model '" + streams->model +
                                        "' streams its answers: they can go to the task's result only");
    }
  }
}

}  // namespace gearbox::config
