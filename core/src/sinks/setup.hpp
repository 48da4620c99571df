// setup.hpp: one sink as the node asks for it, and how it does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "gearbox/plugin/sink.hpp"

namespace gearbox::sinks {

/// What the configuration asks for, and the plugin's object for it.
struct SinkSetup {
  config::SinkConfig config;
  std::shared_ptr<plugin::Sink> sink;  // null: there is none just now, and `missing` says why; its events wait
  std::string missing;
};

struct LaneCounters {
  std::uint64_t delivered = 0;  // events
  std::uint64_t retried = 0;    // deliveries that were put off
  std::uint64_t held = 0;       // events that are tried singly, beside the others: see held.hpp
  std::string state;            // "idle", "delivering", "waiting" (for a retry)
  std::string last_error;       // empty when the last delivery went well
};

}  // namespace gearbox::sinks
