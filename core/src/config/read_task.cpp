#include <algorithm>
#include <string>
#include <vector>

#include "config/graph.hpp"
#include "config/reading.hpp"
#include "config/values.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::config {

namespace {

/// Tells a fault of the graph at its place in the file.
class FileFaults {
 public:
  explicit FileFaults(const toml::Table& root) : root_(root), steps_(root.tables("step", steps::kMaxSteps)) {}

  void operator()(const GraphPlace& place, std::string_view what) const {
    const std::string_view key = place.key;
    if (!place.step) return in_table(root_, "result", key, what);
    const toml::Table& step = steps_[*place.step];
    if (key.starts_with(kInputs))
      return in_table(step, kInputs, key.substr(std::min(key.size(), kInputs.size() + 1)), what);
    if (what == kMissing && !step.has(key)) return void(step.require(key));
    if (what == kMissing && !step.is_text(key)) return;  // told when it was read
    step.fault(key, what);
  }

 private:
  static constexpr std::string_view kInputs = "inputs";

  /// Of `key` in `name`, or of that table as a whole.
  static void in_table(const toml::Table& parent, std::string_view name, std::string_view key, std::string_view what) {
    if (!parent.has(name)) {
      if (what == kMissing) parent.require(name);
      return;  // what follows from that is told once
    }
    if (!parent.is_table(name)) return;
    const auto table = parent.table(name);
    if (!key.empty() && table->has(key) && !table->is_text(key)) return;  // told when it was read
    if (what == kMissing && name == kInputs) return;  // each input that is not fed is told by its name
    table->fault(key, what == kMissing ? "is empty" : what);
  }

  const toml::Table& root_;
  std::vector<toml::Table> steps_;
};

}  // namespace

namespace {
/// As with a step that nothing uses: a device would upload for nothing, and more likely a source is spelt wrong.
void check_inputs_used(const toml::Table& root, const TaskConfig& task) {
  const auto takes = [](const auto& sources, const std::string& input) {
    return std::any_of(sources.begin(), sources.end(), [&](const auto& entry) {
      return entry.second.step == "request" && entry.second.tensor == input;
    });
  };
  const std::vector<toml::Table> tables = root.tables("input", wire::kMaxInputs);
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    const std::string& input = task.inputs[i].name;
    const bool used =
        takes(task.result, input) || std::any_of(task.steps.begin(), task.steps.end(),
                                                 [&](const StepConfig& step) { return takes(step.inputs, input); });
    if (!used && !input.empty()) tables[i].fault("name", "input '" + input + "' feeds no step and is no result");
  }
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
  const steps::StepList list = steps::read_steps(root);
  if (!list.steps.empty()) {
    bool sound = true;
    const FileFaults faults(root);
    make_graph(list, config, task, [&](const GraphPlace& place, std::string_view what) {
      sound = false;
      faults(place, what);
    });
    if (sound) check_inputs_used(root, task);
  }
  document.report_unknown_keys();
  config.tasks.emplace(std::string(stem), std::move(task));
}

}  // namespace gearbox::config
