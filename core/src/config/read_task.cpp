#include <algorithm>

#include "config/reading.hpp"
#include "config/values.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::config {

namespace {

constexpr std::size_t kMaxSteps = 64;

StepConfig read_step(const toml::Table& table) {
  StepConfig step;
  if (table.require("name")) {
    step.name = table.name("name", "");
    if (step.name == "request") table.fault("name", "'request' stands for what the device sent; choose another name");
    if (step.name.find('.') != std::string::npos)
      table.fault("name", "a step's name has no dot (sources are STEP.TENSOR)");
  }
  if (table.require("model")) step.model = table.name("model", "");
  step.version = table.name("version", step.version);
  step.for_each = table.text("for_each", "", 64);
  if (table.require("inputs")) {
    if (const auto inputs = table.table("inputs")) {
      for (const std::string& input : inputs->keys()) {
        if (const auto source = read_source(*inputs, input)) step.inputs.emplace(input, *source);
      }
    }
  }
  return step;
}

}  // namespace

void read_task(const toml::Document& document, std::string_view stem, Config& config) {
  const toml::Table root = document.root();
  TaskConfig task;
  task.name = root.name("name", stem);
  if (task.name != stem)
    root.fault("name", "'" + task.name + "' must be the file's name without .toml, '" + std::string(stem) + "'");
  task.summary = root.text("summary", "", 512);
  task.allow_lossy = root.boolean("allow_lossy", false);
  task.deadline = read_ms(root, "deadline_ms", task.deadline, 0, 3'600'000);
  if (!root.has("input")) root.fault({}, "[[input]] is missing: what does a device send?");
  task.inputs = model::read_tensor_decls(root, "input", model::DeclKind::task_input);
  if (!root.has("step")) root.fault({}, "[[step]] is missing");
  for (const toml::Table& table : root.tables("step", kMaxSteps)) task.steps.push_back(read_step(table));
  if (root.require("result")) {
    if (const auto result = root.table("result")) {
      for (const std::string& name : result->keys()) {
        if (const auto source = read_source(*result, name)) task.result.emplace(name, *source);
      }
      if (result->keys().empty()) result->fault({}, "is empty: name at least one tensor of the answer");
    }
  }
  check_graph(root, task, config);
  check_streams(root, task, config);
  document.report_unknown_keys();
  config.tasks.emplace(std::string(stem), std::move(task));
}

}  // namespace gearbox::config
