// accounts_schema.hpp: the tables of central's accounts, the same on SQLite and on PostgreSQL, and how older ones are
// brought up to date.
#pragma once

#include <cstdint>
#include <string>

#include "sql/connection.hpp"

namespace gearbox::central {

inline constexpr std::int64_t kAccountsSchema = 6;

/// The statements that bring schema `version` (0: nothing is there) to the present one, to be run in one transaction.
/// What is new goes through all of them, so that new and old end alike.
std::string schema_from(std::int64_t version, sql::Dialect dialect);

}  // namespace gearbox::central
