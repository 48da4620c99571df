#include "replay/model.hpp"

#include <optional>

#include "gearbox/toml/document.hpp"

namespace gearbox::replay {

namespace {

constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kMostKinds = 32;

std::uint32_t whole(const toml::Table& table, std::string_view key, std::int64_t fallback, std::int64_t lowest,
                    std::int64_t highest) {
  return static_cast<std::uint32_t>(table.integer(key, fallback, lowest, highest));
}

void read_shape(const toml::Table& root, Model& model) {
  for (const char* key : {"layers", "width", "heads", "parameters"}) root.require(key);
  model.shape.layers = whole(root, "layers", 1, 1, 10'000);
  model.shape.width = whole(root, "width", 1, 1, 1 << 20);
  model.shape.heads = whole(root, "heads", 1, 1, 1 << 16);
  model.shape.kv_heads = whole(root, "kv_heads", model.shape.heads, 1, 1 << 16);
  model.shape.head_width = whole(root, "head_width", model.shape.width / model.shape.heads, 1, 1 << 16);
  model.shape.parameters = static_cast<std::uint64_t>(root.integer("parameters", 1, 1, 1LL << 50));
  model.shape.bytes_per_number = whole(root, "bytes_per_number", 2, 1, 8);
  model.max_batch = whole(root, "max_batch", model.max_batch, 1, 1 << 20);
}

StepModel::Times read_times(const toml::Table& table) {
  StepModel::Times times;
  times.fixed_s = 1e-3 * table.number("fixed_ms", 0, 0, 1e6);
  times.per_item_s = 1e-3 * table.number("per_item_ms", 0, 0, 1e6);
  if (times.fixed_s + times.per_item_s <= 0) table.fault("per_item_ms", "a step takes some time");
  return times;
}

StepModel read_step(const toml::Table& table) {
  StepModel step;
  step.name = table.name("name", "");
  table.require("name");
  step.times = read_times(table);
  step.max_batch = whole(table, "max_batch", 1, 1, 4096);
  step.items = whole(table, "items", 1, 1, 4096);
  const std::string spread = table.text("spread", "none", 32);
  if (spread == "exponential") {
    step.spread = StepModel::Spread::exponential;
  } else if (spread != "none") {
    table.fault("spread", "\"none\" or \"exponential\"");
  }
  for (const toml::Table& each : table.tables("on", kMostKinds)) {
    each.require("card");
    step.on[each.text("card", "", 64)] = read_times(each);
  }
  return step;
}

Outcome<Model> read(std::optional<toml::Document> document, toml::Faults& faults) {
  if (!document) return faults.error();
  Model model;
  const toml::Table root = document->root();
  root.require("name");
  model.name = root.name("name", "");
  const std::string kind = root.text("kind", "decoder", 32);
  if (kind == "pipeline") {
    model.kind = Model::Kind::pipeline;
    root.require("steps");
    for (const toml::Table& table : root.tables("steps", kMostSteps)) model.steps.push_back(read_step(table));
    model.prefetch = whole(root, "prefetch", 1, 0, 1024);
  } else {
    if (kind != "decoder") root.fault("kind", "\"decoder\" or \"pipeline\"");
    read_shape(root, model);
  }
  document->report_unknown_keys();
  if (!faults.empty()) return faults.error();
  return model;
}

}  // namespace

Outcome<Model> read_model(const std::filesystem::path& file) {
  toml::Faults faults;
  return read(toml::Document::read(file, file.string(), faults), faults);
}

Outcome<Model> parse_model(std::string text, const std::string& shown) {
  toml::Faults faults;
  return read(toml::Document::parse(std::move(text), shown, faults), faults);
}

}  // namespace gearbox::replay
