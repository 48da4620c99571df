// model.hpp: what is served in a run, as its TOML file tells it: a decoder that is split over cards, or a pipeline of
// steps whose times were measured (docs/replay.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/gears/layout.hpp"

namespace gearbox::replay {

/// One step of a pipeline on one card: a batch of n items takes fixed + n × per item.
struct StepModel {
  enum class Spread : std::uint8_t { none, exponential };
  struct Times {
    double fixed_s = 0, per_item_s = 0;
  };
  std::string name;
  Times times;                      // where the card is not named below
  std::map<std::string, Times> on;  // by the card's name
  std::uint32_t max_batch = 1;
  std::uint32_t items = 1;       // calls of each request
  Spread spread = Spread::none;  // of a batch's time around what is told
};

struct Model {
  enum class Kind : std::uint8_t { decoder, pipeline };
  std::string name;
  Kind kind = Kind::decoder;
  gears::ModelShape shape;        // of a decoder
  std::uint32_t max_batch = 512;  // sequences in one step of a replica
  std::vector<StepModel> steps;   // of a pipeline, in their order
  std::uint32_t prefetch = 1;     // batches that wait at a card beside the one that runs there
};

/// Errors: bad_config, one line for each fault.
Outcome<Model> read_model(const std::filesystem::path& file);
Outcome<Model> parse_model(std::string text, const std::string& shown);

}  // namespace gearbox::replay
