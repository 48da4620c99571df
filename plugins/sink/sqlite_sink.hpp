// sqlite_sink.hpp: events as rows of a SQLite file, which other programs may read meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "gearbox/plugin/sink.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::sink {

class SqliteSink final : public plugin::Sink {
 public:
  /// `file`: relative to the sink's folder, or absolute. `max_rows`: beyond that the oldest rows go; 0: none does.
  SqliteSink(std::string file, std::int64_t max_rows) : file_(std::move(file)), max_rows_(max_rows) {}

  Outcome<void> open(const plugin::SinkPlace& place) override;
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant deadline) override;

 private:
  Outcome<void> write(std::span<const plugin::EventView> events);

  const std::string file_;
  const std::int64_t max_rows_;
  sqlite::Database database_;
  sqlite::Statement put_, trim_;
};

}  // namespace gearbox::sink
