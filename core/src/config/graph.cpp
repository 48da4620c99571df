#include "config/graph.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>

#include "config/versions.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::config {

namespace {

using wire::StepSpec;

constexpr double kRounding = 1e-9;  // shares such as 0.1 are no binary fractions

/// Can a step be called that, as far as sources go?
bool is_step_name(const std::string& name) {
  return is_name(name) && name.find('.') == std::string::npos && name != "request";
}

TensorSource source_of(const GraphPlace& place, const std::string& text, const steps::StepList& list,
                       const GraphFault& fault) {
  // A step that must be called otherwise is told once, at its name.
  const auto misnamed = [&](const StepSpec& step) {
    return !step.name.empty() && step.name != "request" && !is_step_name(step.name) &&
           text.starts_with(step.name + ".");
  };
  if (std::any_of(list.steps.begin(), list.steps.end(), misnamed)) return {};
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string step = text.substr(0, dot);
  const std::string tensor = dot == text.size() ? std::string() : text.substr(dot + 1);
  if (is_name(step) && is_name(tensor)) return {step, tensor};
  fault(place, "'" + text.substr(0, 2 * kMaxNameBytes + 1) + "' is no source (\"request.TENSOR\" or \"STEP.TENSOR\")");
  return {};
}

/// Is it there, and a name? `what` is its key.
bool check_given_name(std::size_t index, const char* what, const std::string& name, const GraphFault& fault) {
  if (name.empty()) {
    fault({index, what}, kMissing);
  } else if (!is_name(name)) {
    fault({index, what}, "'" + name.substr(0, kMaxNameBytes) +
                             "' is no name: 1 to 64 of A-Z a-z 0-9 . _ - are allowed, a letter or digit first");
  } else {
    return true;
  }
  return false;
}

StepConfig step_from(const steps::StepList& list, std::size_t index, const GraphFault& fault) {
  const StepSpec& spec = list.steps[index];
  StepConfig step;
  if (check_given_name(index, "name", spec.name, fault)) {
    if (spec.name == "request") {
      fault({index, "name"}, "'request' stands for what the device sent; choose another name");
    }
    if (spec.name.find('.') != std::string::npos) {
      fault({index, "name"}, "a step's name has no dot (sources are STEP.TENSOR)");
    }
    if (is_step_name(spec.name)) step.name = spec.name;
  }
  if (check_given_name(index, "model", spec.model, fault)) step.model = spec.model;
  if (!spec.version.empty()) step.version = spec.version;
  step.for_each = spec.for_each;
  step.deadline_share = spec.deadline_share;
  if (spec.deadline_share != 0 && !(spec.deadline_share >= steps::kSmallestShare && spec.deadline_share <= 1)) {
    fault({index, "deadline_share"}, "is out of range (0.01 to 1)");
  }
  step.retry = spec.retry;
  if (spec.retry > steps::kMaxRetry) {
    fault({index, "retry"},
          std::to_string(spec.retry) + " is out of range (0 to " + std::to_string(steps::kMaxRetry) + ")");
  }
  if (spec.inputs.empty()) fault({index, "inputs"}, kMissing);
  for (const auto& [input, source] : spec.inputs) {
    step.inputs.emplace(input, source_of({index, "inputs." + input}, source, list, fault));
  }
  return step;
}

const model::Record* find_step_model(std::size_t index, const StepConfig& step, const Config& config,
                                     const GraphFault& fault) {
  if (step.model.empty()) return nullptr;  // told already
  if (const std::string wrong = asked_fault(step.version); !wrong.empty()) {
    fault({index, "version"}, wrong);
    return nullptr;
  }
  if (const model::Record* record = find_model(config, step.model, step.version)) return record;
  std::vector<std::string> names;
  std::string versions;
  for (const model::Record& record : config.models) {
    names.push_back(record.name);
    if (record.name == step.model) versions += (versions.empty() ? "" : ", ") + record.version;
  }
  if (!versions.empty()) {
    const bool range = kind_of(step.version) == Asked::range;
    fault({index, "version"}, "model '" + step.model + "' has no version " + (range ? "in '" : "'") + step.version +
                                  "'; there is " + versions);
    return nullptr;
  }
  const std::string_view near = nearest(step.model, names);
  fault({index, "model"}, "no folder in models/ has a model called '" + step.model + "'" +
                              (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
  return nullptr;
}

/// The steps by number, each behind those that feed it, otherwise as they were written. Circles are told.
class Order {
 public:
  Order(const std::vector<StepConfig>& steps, const GraphFault& fault)
      : steps_(steps), fault_(fault), state_(steps.size(), State::unseen) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!steps[i].name.empty()) by_name_.emplace(steps[i].name, i);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) visit(i);
  }

  const std::vector<std::size_t>& order() const { return order_; }
  /// The steps that feed `step`.
  std::set<std::size_t> feeders(std::size_t step) const {
    std::set<std::size_t> found;
    for (const auto& [input, source] : steps_[step].inputs) {
      if (const auto feeder = by_name_.find(source.step); feeder != by_name_.end()) found.insert(feeder->second);
    }
    return found;
  }

 private:
  enum class State { unseen, open, placed };

  // As deep as there are steps: at most 64.
  void visit(std::size_t step) {
    if (state_[step] == State::placed) return;
    state_[step] = State::open;
    path_.push_back(step);
    for (const auto& [input, source] : steps_[step].inputs) {
      const auto feeder = by_name_.find(source.step);
      if (feeder == by_name_.end()) continue;
      if (state_[feeder->second] == State::open) {
        tell_circle(step, input, feeder->second);
      } else {
        visit(feeder->second);
      }
    }
    path_.pop_back();
    state_[step] = State::placed;
    order_.push_back(step);
  }

  /// The path leads from a step to what feeds it; told is the way that the tensors go.
  void tell_circle(std::size_t step, const std::string& input, std::size_t feeder) {
    std::string circle = steps_[feeder].name;
    const auto begin = std::find(path_.begin(), path_.end(), feeder);
    for (auto at = path_.end(); at != begin;) circle += " -> " + steps_[*--at].name;
    fault_({step, "inputs." + input}, "the steps feed each other in a circle: " + circle);
  }

  const std::vector<StepConfig>& steps_;
  const GraphFault& fault_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<State> state_;
  std::vector<std::size_t> path_;
  std::vector<std::size_t> order_;
};

std::string share_text(double share) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.4g", share);
  return digits.data();
}

/// No way through the graph may promise its steps more than the whole.
void check_shares(const std::vector<StepConfig>& steps, const Order& order, const GraphFault& fault) {
  std::vector<double> sum(steps.size(), 0);
  std::vector<std::string> way(steps.size());
  for (const std::size_t step : order.order()) {
    for (const std::size_t feeder : order.feeders(step)) {
      if (sum[feeder] <= sum[step]) continue;
      sum[step] = sum[feeder];
      way[step] = way[feeder];
    }
    const double share = steps[step].deadline_share;
    if (share == 0) continue;
    const bool was_within = sum[step] <= 1 + kRounding;
    sum[step] += share;
    way[step] += (way[step].empty() ? "" : " -> ") + steps[step].name;
    if (was_within && sum[step] > 1 + kRounding) {
      fault({step, "deadline_share"},
            "the shares of " + way[step] + " add up to " + share_text(sum[step]) + ", more than the whole");
    }
  }
}

void check_use(const std::vector<StepConfig>& steps, const std::map<std::string, TensorSource>& result,
               const GraphFault& fault) {
  std::set<std::string> used;
  for (const StepConfig& step : steps) {
    for (const auto& [input, source] : step.inputs) used.insert(source.step);
  }
  for (const auto& [name, source] : result) used.insert(source.step);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].name.empty() && !used.contains(steps[i].name)) {
      fault({i, "name"}, "step '" + steps[i].name + "' feeds nothing and is no result");
    }
  }
}

}  // namespace

void make_graph(const steps::StepList& list, const Config& config, TaskConfig& task, const GraphFault& fault) {
  std::size_t faults = 0;
  const GraphFault counted = [&](const GraphPlace& place, std::string_view what) {
    ++faults;
    fault(place, what);
  };
  std::vector<StepConfig> steps;
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.steps.size(); ++i) {
    steps.push_back(step_from(list, i, counted));
    const std::string& name = steps.back().name;
    if (!name.empty() && !names.insert(name).second) counted({i, "name"}, "'" + name + "' is there twice");
  }
  if (list.result.empty()) counted({}, kMissing);
  for (const auto& [name, source] : list.result) {
    const TensorSource read = source_of({{}, name}, source, list, counted);
    if (!read.tensor.empty()) task.result.emplace(name, read);
  }
  std::vector<GraphStep> known;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    known.push_back({&steps[i], find_step_model(i, steps[i], config, counted)});
  }
  check_edges(known, task, counted);
  check_streams(known, counted);
  const Order order(steps, counted);
  check_shares(steps, order, counted);
  // What is spelt wrong feeds nothing either, and that would only be told as well.
  if (faults == 0) check_use(steps, task.result, counted);
  for (const std::size_t step : order.order()) task.steps.push_back(steps[step]);
}

std::string shown(const GraphPlace& place, const steps::StepList& list) {
  if (!place.step) return place.key.empty() ? "result" : "result." + escaped(place.key, kMaxNameBytes);
  std::string text = "step " + std::to_string(*place.step + 1);
  const std::string& name = list.steps[*place.step].name;
  if (!name.empty()) text += " '" + escaped(name, kMaxNameBytes) + "'";
  if (!place.key.empty()) text += ", " + escaped(place.key, 2 * kMaxNameBytes);
  return text;
}

}  // namespace gearbox::config
