#include <algorithm>
#include <map>

#include "config/reading.hpp"
#include "gearbox/base/text.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::config {

namespace {

/// Names that a source may have so far: "request.image", "detect.crops".
using Known = std::map<std::string, model::TensorDecl, std::less<>>;

std::string spelt(const TensorSource& source) {
  return source.step + "." + source.tensor;
}

const model::TensorDecl* find_source(const toml::Table& table, std::string_view key, const TensorSource& source,
                                     const Known& known) {
  const auto found = known.find(spelt(source));
  if (found != known.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [name, decl] : known) names.push_back(name);
  const std::string_view near = nearest(spelt(source), names);
  table.fault(key, "'" + spelt(source) + "' is neither an input of the task nor an output of an earlier step" +
                       (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
  return nullptr;
}

bool shapes_can_meet(const model::TensorDecl& from, const model::TensorDecl& to) {
  if (from.any_shape || to.any_shape) return true;
  return from.shape.size() == to.shape.size() &&
         std::equal(from.shape.begin(), from.shape.end(), to.shape.begin(),
                    [](std::int64_t a, std::int64_t b) { return a == -1 || b == -1 || a == b; });
}

/// What flows along one edge: `from`, or one item of it, into a model's input.
void check_edge(const toml::Table& inputs, const std::string& key, const model::TensorDecl& from,
                const model::TensorDecl& to, bool scattered) {
  if (scattered && !from.list)
    inputs.fault(key, "for_each needs a list, this is a single tensor (" + model::shown(from) + ")");
  if (!scattered && from.list)
    inputs.fault(key, "is a list (" + model::shown(from) + "); give it to the step with for_each = \"" + key + "\"");
  const bool types_can_meet = from.any_dtype || to.any_dtype || from.dtype == to.dtype;
  if (!types_can_meet || !shapes_can_meet(from, to)) {
    model::TensorDecl item = from;
    item.list = false;
    inputs.fault(key, "the model takes " + model::shown(to) + ", the source gives " + model::shown(item));
  }
}

const model::Record* find_step_model(const toml::Table& table, const StepConfig& step, const Config& config) {
  if (step.model.empty()) return nullptr;  // told already
  if (const model::Record* record = find_model(config, step.model, step.version)) return record;
  std::vector<std::string> names;
  for (const model::Record& record : config.models) names.push_back(record.name);
  const bool other_version = std::find(names.begin(), names.end(), step.model) != names.end();
  const std::string_view near = nearest(step.model, names);
  if (other_version) {
    table.fault("version", "model '" + step.model + "' has no version '" + step.version + "'");
  } else {
    table.fault("model", "no folder in models/ has a model called '" + step.model + "'" +
                             (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
  }
  return nullptr;
}

void check_step(const toml::Table& table, const StepConfig& step, const model::Record& record, const Known& known) {
  const auto inputs = table.table("inputs");
  if (!inputs) return;
  std::vector<std::string> names;
  for (const model::TensorDecl& input : record.inputs) {
    names.push_back(input.name);
    if (!step.inputs.contains(input.name)) {
      if (!inputs->has(input.name))
        inputs->fault({}, "input '" + input.name + "' of model '" + record.name + "' is not fed");
    }
  }
  for (const auto& [input, source] : step.inputs) {
    const auto decl =
        std::find_if(record.inputs.begin(), record.inputs.end(), [&](const auto& one) { return one.name == input; });
    if (decl == record.inputs.end()) {
      const std::string_view near = nearest(input, names);
      inputs->fault(input, "model '" + record.name + "' has no such input" +
                               (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
      continue;
    }
    if (const model::TensorDecl* from = find_source(*inputs, input, source, known)) {
      check_edge(*inputs, input, *from, *decl, step.for_each == input);
    }
  }
  if (!step.for_each.empty() && !step.inputs.contains(step.for_each)) {
    table.fault("for_each", "'" + step.for_each + "' is none of the step's inputs");
  }
}

}  // namespace

void check_graph(const toml::Table& root, const TaskConfig& task, const Config& config) {
  Known known;
  for (const model::TensorDecl& input : task.inputs) known.emplace("request." + input.name, input);
  const std::vector<toml::Table> tables = root.tables("step", task.steps.size());
  std::vector<std::string> step_names;
  for (std::size_t i = 0; i < task.steps.size(); ++i) {
    const StepConfig& step = task.steps[i];
    if (std::find(step_names.begin(), step_names.end(), step.name) != step_names.end() && !step.name.empty()) {
      tables[i].fault("name", "'" + step.name + "' is there twice");
    }
    step_names.push_back(step.name);
    const model::Record* record = find_step_model(tables[i], step, config);
    if (record == nullptr) continue;
    check_step(tables[i], step, *record, known);
    for (model::TensorDecl output : record->outputs) {
      output.list = output.list || !step.for_each.empty();  // one answer per item, gathered in order
      known.emplace(step.name + "." + output.name, std::move(output));
    }
  }
  // A step whose model is unknown gives no outputs; faults that follow from it alone would only hide the first one.
  const bool all_found = std::all_of(task.steps.begin(), task.steps.end(), [&](const StepConfig& step) {
    return find_model(config, step.model, step.version) != nullptr;
  });
  if (const auto result = all_found ? root.table("result") : std::nullopt) {
    for (const auto& [name, source] : task.result) {
      if (!is_name(name) || name.size() > 32)
        result->fault(name, "is no name of a tensor (at most 32 of A-Z a-z 0-9 . _ -)");
      find_source(*result, name, source, known);
    }
  }
}

}  // namespace gearbox::config
