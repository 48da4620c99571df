// values_of.hpp: every setting of a configuration as one flat list: the one place where settings get the names by which
// people see them (config show, config diff, what changed at a reload).
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace gearbox::config {

struct Value {
  enum class Kind { text, number, truth };
  std::string key;                // as the files have it, with the unit: "node.limits.max_upload_mb"
  std::string value;              // plain: "64", "true", "tcp://127.0.0.1:7601"; texts as they are, not escaped
  Kind kind = Kind::text;         // what it is in JSON
  std::vector<std::string> path;  // the key's parts; a part may hold dots of its own
};

/// Defaults included, in the files' order: central, node, env, worker, plugins, task, model. Keys are unique.
///   worker[detect].count             by model; worker[detect@1], worker[detect@1, py] ... when several have that model
///   task.read-text.step.read.model   by the names of tasks and steps
///   model.detect@1.digest            by name and version; every change of the model's files changes its digest
/// Paths inside the configuration's folder are relative to it; passwords in options of plugins are "***".
std::vector<Value> values_of(const Config& config);

}  // namespace gearbox::config
