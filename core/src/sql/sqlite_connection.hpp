// sqlite_connection.hpp: a Connection to an SQLite database that somebody has opened already.
#pragma once

#include <memory>

#include "sql/connection.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::sql {

std::unique_ptr<Connection> connection_to(sqlite::Database database);

}  // namespace gearbox::sql
