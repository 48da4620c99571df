// engine_status.hpp: what a group's driver says of itself, read and checked.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/gears/layout.hpp"

namespace gearbox::gear_facts {

struct EngineRank {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t used_units = 0, units = 0;
};

/// Counters since the driver's start; the last three are medians and waits of just now.
struct EngineLoad {
  std::uint64_t arrived = 0, finished = 0, prompt_tokens = 0, output_tokens = 0;
  std::int64_t oldest_wait_ms = -1;
  double first_token_ms = -1, per_token_ms = -1;
};

struct EngineStatus {
  bool ok = true;
  std::string why;  // of a no
  std::string phase, shift, collective, model;
  std::uint8_t gear = 0;  // 0: none of the six
  std::uint64_t epoch = 0, term = 0;
  std::int64_t pid = 0;  // of the driver, which is a worker of the node; 0: not told
  std::vector<EngineRank> ranks;
  std::uint32_t running = 0, waiting = 0;
  std::uint64_t tokens = 0, steps = 0, evicted = 0, shifts = 0;
  gears::ModelShape shape;  // layers = 0: not told
  bool has_load = false;
  EngineLoad load;
};

/// Errors: bad_frame.
Outcome<EngineStatus> read_status(const boost::json::object& object);

/// Did it say yes, and if not, why? Text of an engine is outside text: escaped, bounded.
struct EngineWord {
  bool ok = false;
  std::string why;
};
EngineWord word_of(const boost::json::object& answer);

}  // namespace gearbox::gear_facts
