// unserved.hpp: tasks that this node cannot serve, because no [[worker]] runs a model of theirs. No fault: a worker may
// come with the next change of the folder, or another node serves the task. But it is said wherever somebody may
// wonder.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace gearbox::config {

struct Unserved {
  std::string task, model;
  std::string version;  // as the step asks for it
  std::string reason;   // "no [[worker]] names model 'm'"
};

/// In the tasks' order, each model of a task once. Threads: any.
std::vector<Unserved> unserved_of(const Config& config);

}  // namespace gearbox::config
