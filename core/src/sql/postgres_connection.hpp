// postgres_connection.hpp: a Connection to a PostgreSQL server that comes back by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gearbox/base/clock.hpp"
#include "sql/connection.hpp"

namespace gearbox::sql {

struct PostgresSettings {
  std::string connection;  // libpq's
  std::string set_up;      // what each new connection begins with
  std::string begin;       // after BEGIN: must change one row, else the transaction ends with shutting_down
  milliseconds statement_within{2'500};
  /// What a call waits for a connection that is not there. While the server is away only one call in `pause` waits at
  /// all, the others fail at once: a thread that has other work loses a small share of its time at most.
  milliseconds connect_within{2'500};
  milliseconds pause{500};
  /// For a thread that serves others meanwhile: even a host's name is resolved elsewhere, a call waits for no more than
  /// `connect_within`. Without it the resolver's time comes on top.
  bool connects_on_a_thread = false;
  /// When set, it hears the server's and libpq's own words, which name hosts and people; errors then say no more than
  /// that the database did not do it, since they may be handed on to strangers.
  std::function<void(const Error&)> tell;
};

/// Nothing is tried before the first call. A connection that is lost inside a transaction ends it: no statement of it
/// runs outside by mistake.
std::unique_ptr<Connection> connection_to(PostgresSettings settings);

}  // namespace gearbox::sql
