// log_to_stderr.hpp: for commands that use parts which log: their own output may be JSON.
#pragma once

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace gearbox::cli {

/// From now on what this process logs goes to stderr. Not for roles: the supervisor reads their stdout.
inline void log_to_stderr() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>(std::string(), std::make_shared<spdlog::sinks::stderr_sink_mt>()));
}

}  // namespace gearbox::cli
