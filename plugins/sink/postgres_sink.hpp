// postgres_sink.hpp: events as rows of a PostgreSQL table.
#pragma once

#include <memory>
#include <pqxx/pqxx>
#include <string>

#include "gearbox/plugin/sink.hpp"

namespace gearbox::sink {

/// Makes the table when it is missing. A batch is one transaction. A server that is away, or refuses what would be
/// right (no such role, no room): later. A value that the table does not take: never.
class PostgresSink final : public plugin::Sink {
 public:
  /// `connection`: libpq's "host=... dbname=..." or URL; what it leaves out comes from the environment and ~/.pgpass.
  /// Errors of the server are told without values of rows.
  /// `table`: NAME or SCHEMA.NAME of letters, digits and _.
  PostgresSink(std::string connection, std::string table) : options_(std::move(connection)), table_(std::move(table)) {}

  Outcome<void> open(const plugin::SinkPlace& place) override;
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant deadline) override;

 private:
  void connect(Instant deadline);
  void write(std::span<const plugin::EventView> events);
  plugin::Verdict put_off(std::string reason, Instant deadline);

  const std::string options_, table_;
  std::unique_ptr<pqxx::connection> connection_;  // null: to be made
};

/// Is it a table's name as above?
bool is_table_name(std::string_view text);

}  // namespace gearbox::sink
