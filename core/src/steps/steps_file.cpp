#include "gearbox/steps/steps_file.hpp"

#include <algorithm>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::steps {

namespace {

constexpr std::size_t kMaxSource = 2 * kMaxNameBytes + 1;
constexpr std::size_t kMaxText = 256;  // longer than any name, so that a long one is told for what it is

std::map<std::string, std::string> read_sources(const toml::Table& table) {
  std::map<std::string, std::string> sources;
  for (const std::string& name : table.keys()) sources.emplace(name, table.text(name, "", kMaxSource));
  return sources;
}

wire::StepSpec read_step(const toml::Table& table) {
  wire::StepSpec step;
  step.name = table.text("name", "", kMaxText);
  step.model = table.text("model", "", kMaxText);
  step.version = table.text("version", "", kMaxText);
  step.for_each = table.text("for_each", "", kMaxText);
  step.deadline_share = table.number("deadline_share", 0, kSmallestShare, 1);
  step.retry = static_cast<std::uint32_t>(table.integer("retry", 0, 0, kMaxRetry));
  if (const auto inputs = table.table("inputs")) step.inputs = read_sources(*inputs);
  return step;
}

}  // namespace

StepList read_steps(const toml::Table& root, std::size_t max_steps) {
  StepList list;
  for (const toml::Table& table : root.tables("step", max_steps)) list.steps.push_back(read_step(table));
  if (const auto result = root.table("result")) list.result = read_sources(*result);
  return list;
}

Outcome<StepList> read_steps_file(const std::filesystem::path& file) {
  toml::Faults faults;
  const auto document = toml::Document::read(file, file.string(), faults);
  if (!document) return faults.error();
  const toml::Table root = document->root();
  StepList list = read_steps(root, wire::kMaxOwnSteps);
  if (!root.has("step")) root.fault({}, "[[step]] is missing");
  if (!root.has("result")) root.fault({}, "'result' is missing");
  for (const char* key : {"name", "summary", "allow_lossy", "deadline_ms", "input"}) root.has(key);  // a task's
  document->report_unknown_keys();
  if (!faults.empty()) return faults.error();
  return list;
}

std::vector<std::string> models_of(const std::vector<wire::StepSpec>& steps) {
  std::vector<std::string> models;
  for (const wire::StepSpec& step : steps) {
    const bool any = step.version.empty() || step.version == "latest";
    std::string model = any ? step.model : step.model + "@" + step.version;
    if (std::find(models.begin(), models.end(), model) == models.end()) models.push_back(std::move(model));
  }
  return models;
}

}  // namespace gearbox::steps
