#include <algorithm>
#include <map>

#include "config/graph.hpp"
#include "gearbox/base/text.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::config {

namespace {

/// What a source stands for: an input of the task, or what a step gives.
struct Given {
  model::TensorDecl decl;
  bool list_of_lists = false;
};

std::string spelt(const TensorSource& source) {
  return source.step + "." + source.tensor;
}

bool shapes_can_meet(const model::TensorDecl& from, const model::TensorDecl& to) {
  if (from.any_shape || to.any_shape) return true;
  return from.shape.size() == to.shape.size() &&
         std::equal(from.shape.begin(), from.shape.end(), to.shape.begin(),
                    [](std::int64_t a, std::int64_t b) { return a == -1 || b == -1 || a == b; });
}

class EdgeCheck {
 public:
  EdgeCheck(const std::vector<GraphStep>& steps, const TaskConfig& task, const GraphFault& fault)
      : steps_(steps), task_(task), fault_(fault) {
    for (const model::TensorDecl& input : task.inputs) known_.emplace("request." + input.name, Given{input});
    for (const GraphStep& step : steps) {
      if (step.record == nullptr) {
        unknown_steps_.push_back(step.config->name);
        continue;
      }
      if (step.config->name.empty()) continue;  // its name is at fault, which was told
      for (const model::TensorDecl& output : step.record->outputs) {
        const bool scattered = !step.config->for_each.empty();
        Given given{output, scattered && output.list};
        given.decl.list = output.list || scattered;  // one answer per item, gathered in order
        known_.emplace(step.config->name + "." + output.name, std::move(given));
      }
    }
  }

  void check() const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].record != nullptr) check_step(i);
    }
    for (const auto& [name, source] : task_.result) {
      if (!is_name(name) || name.size() > kMaxTensorName)
        fault_({{}, name}, "is no name of a tensor (at most 32 of A-Z a-z 0-9 . _ -)");
      find_source({{}, name}, source);
    }
  }

 private:
  static constexpr std::size_t kMaxTensorName = 32;

  const model::TensorDecl* find_source(const GraphPlace& place, const TensorSource& source) const {
    const auto found = known_.find(spelt(source));
    if (found == known_.end()) {
      // Faults that follow from an unknown model alone would only hide the first one.
      if (std::find(unknown_steps_.begin(), unknown_steps_.end(), source.step) != unknown_steps_.end()) return nullptr;
      std::vector<std::string> names;
      for (const auto& [name, given] : known_) names.push_back(name);
      const std::string_view near = nearest(spelt(source), names);
      fault_(place, "'" + spelt(source) + "' is neither an input of the task nor an output of a step" +
                        (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
      return nullptr;
    }
    if (found->second.list_of_lists) {
      fault_(place, "'" + spelt(source) + "' would be a list of lists: step '" + source.step +
                        "' runs once for each item, and its model gives a list each time");
      return nullptr;
    }
    return &found->second.decl;
  }

  /// What flows along one edge: `from`, or one item of it, into a model's input.
  void check_edge(const GraphPlace& place, const StepConfig& step, const std::string& input,
                  const model::TensorDecl& from, const model::TensorDecl& to) const {
    const bool scattered = step.for_each == input;
    if (scattered && !from.list) {
      fault_(place, "for_each needs a list, this is a single tensor (" + model::shown(from) + ")");
    }
    if (!scattered && from.list) {
      fault_(place, "is a list (" + model::shown(from) + "); " +
                        (step.for_each.empty() ? "give it to the step with for_each = \"" + input + "\""
                                               : "the step takes the items of '" + step.for_each +
                                                     "' one by one, and of no second list"));
    }
    const bool types_can_meet = from.any_dtype || to.any_dtype || from.dtype == to.dtype;
    if (!types_can_meet || !shapes_can_meet(from, to)) {
      model::TensorDecl item = from;
      item.list = false;
      fault_(place, "the model takes " + model::shown(to) + ", the source gives " + model::shown(item));
    }
  }

  void check_step(std::size_t index) const {
    const StepConfig& step = *steps_[index].config;
    const model::Record& record = *steps_[index].record;
    std::vector<std::string> names;
    for (const model::TensorDecl& input : record.inputs) {
      names.push_back(input.name);
      if (!step.inputs.contains(input.name)) {
        fault_({index, "inputs"}, "input '" + input.name + "' of model '" + record.name + "' is not fed");
      }
    }
    for (const auto& [input, source] : step.inputs) {
      const GraphPlace place{index, "inputs." + input};
      const auto decl = std::find_if(record.inputs.begin(), record.inputs.end(),
                                     [&name = input](const auto& one) { return one.name == name; });
      if (decl == record.inputs.end()) {
        const std::string_view near = nearest(input, names);
        fault_(place, "model '" + record.name + "' has no such input" +
                          (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
        continue;
      }
      if (source.tensor.empty()) continue;  // no source at all, which was told
      if (const model::TensorDecl* from = find_source(place, source)) check_edge(place, step, input, *from, *decl);
    }
    if (!step.for_each.empty() && !step.inputs.contains(step.for_each)) {
      fault_({index, "for_each"}, "'" + step.for_each + "' is none of the step's inputs");
    }
  }

  const std::vector<GraphStep>& steps_;
  const TaskConfig& task_;
  const GraphFault& fault_;
  std::map<std::string, Given> known_;  // by "request.image", "detect.crops"
  std::vector<std::string> unknown_steps_;
};

}  // namespace

void check_edges(const std::vector<GraphStep>& steps, const TaskConfig& task, const GraphFault& fault) {
  EdgeCheck(steps, task, fault).check();
}

}  // namespace gearbox::config
