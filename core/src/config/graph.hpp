// graph.hpp: from steps as they were written down, in a task's file or in a device's request, to a graph that can run:
// each model is there, each of its inputs is fed with what fits, nothing feeds itself, everything is of use.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "gearbox/steps/steps_file.hpp"

namespace gearbox::config {

/// Where a fault of a graph is.
struct GraphPlace {
  std::optional<std::size_t>
      step;         // its number, from 0, in the order in which the steps were written; none: the result
  std::string key;  // "version", "inputs.image"; of the result a name in it; empty: the whole
};
using GraphFault = std::function<void(const GraphPlace&, std::string_view what)>;

/// What is told of a name, of a step's inputs, or of the result, when nothing is there.
inline constexpr std::string_view kMissing = "is missing";

/// Fills in `task.steps`, in an order in which each comes behind those that feed it (else as they were written), and
/// `task.result`. `task.inputs` must be there already. Each fault is told; after one, `task` is good for nothing.
void make_graph(const steps::StepList& list, const Config& config, TaskConfig& task, const GraphFault& fault);

/// "step 2 'read', inputs.image": for those who see no file. `list`: what the place is in.
std::string shown(const GraphPlace& place, const steps::StepList& list);

/// A step whose model is known.
struct GraphStep {
  const StepConfig* config = nullptr;
  const model::Record* record = nullptr;  // the newest that its version admits; nullptr: none, which was told
};

/// The part of make_graph() that looks at single edges: does what a source gives fit what it feeds? A source that is
/// nothing, because its step's model is unknown, is no further fault.
void check_edges(const std::vector<GraphStep>& steps, const TaskConfig& task, const GraphFault& fault);

/// A step whose model streams has one call and no retry, is the only such one in a task, and feeds nothing but the
/// task's result.
void check_streams(const std::vector<GraphStep>& steps, const GraphFault& fault);

}  // namespace gearbox::config
