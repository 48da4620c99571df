#include "session/own_steps.hpp"

#include <string>
#include <utility>
#include <vector>

#include "config/graph.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/ticket.hpp"

namespace gearbox::session {

namespace {

using config::TaskConfig;
using TaskPtr = std::shared_ptr<const TaskConfig>;

constexpr std::size_t kMaxFaultsTold = 8;
constexpr std::size_t kMaxFaultBytes = 512;

Outcome<TaskPtr> configured(const Identity& identity, const config::Snapshot& config, const std::string& name) {
  BOOST_OUTCOME_TRY(check_name("task", name));
  const auto found = config->tasks.find(name);
  if (found == config->tasks.end()) {
    std::vector<std::string> names;
    for (const auto& [known, task] : config->tasks) names.push_back(known);
    const std::string_view near = nearest(name, names);
    return Error{Errc::unknown_task,
                 "no task is called '" + name + "'" +
                     (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?")};
  }
  if (!identity.local) {
    BOOST_OUTCOME_TRY(link::check_task(identity.ticket, name));
  }
  return TaskPtr(config, &found->second);
}

Outcome<TaskPtr> own(const config::Config& config, const wire::Submit& submit) {
  auto task = std::make_shared<TaskConfig>();
  task->name = wire::kOwnSteps;
  task->allow_lossy = true;  // its own pictures: it knows what they are worth
  for (const wire::InputSpec& input : submit.inputs) {
    model::TensorDecl decl;
    decl.name = input.tensor.name;
    decl.dtype = input.tensor.dtype;
    decl.shape = input.tensor.shape;
    task->inputs.push_back(std::move(decl));
  }
  const steps::StepList list{submit.steps, submit.result};
  std::string faults;
  std::size_t count = 0;
  config::make_graph(list, config, *task, [&](const config::GraphPlace& place, std::string_view what) {
    if (++count > kMaxFaultsTold) return;
    faults += (faults.empty() ? "" : "; ") + shown(place, list) + ": " + escaped(what, kMaxFaultBytes);
  });
  if (count == 0) return TaskPtr(std::move(task));
  if (count > kMaxFaultsTold) faults += "; and " + std::to_string(count - kMaxFaultsTold) + " more faults";
  return Error{Errc::bad_input, std::move(faults)};
}

}  // namespace

Outcome<TaskPtr> task_of(const Identity& identity, const config::Snapshot& config, const wire::Submit& submit) {
  if (submit.steps.empty()) return configured(identity, config, submit.task);
  if (!submit.task.empty()) return Error{Errc::bad_input, "a request names a task, or brings its own steps, not both"};
  if (!identity.local && !identity.ticket.own_steps) {
    return Error{Errc::not_allowed, "this account may not send its own steps"};
  }
  return own(*config, submit);
}

}  // namespace gearbox::session
