// accounts_file.hpp: the life of central's database file: made whole or not at all, checked at open, copied, set aside.
#pragma once

#include <filesystem>

#include "central/accounts.hpp"
#include "gearbox/base/outcome.hpp"
#include "sql/connection.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::central {

/// See Accounts::open.
Outcome<sqlite::Database> open_accounts_file(const std::filesystem::path& file, OnDamage on_damage);

/// Writes FILE.backup anew: beside it, flushed to disk, renamed. Several processes may call it at once: the last one
/// wins with the newest content. Errors: io_error, no_space.
Outcome<void> copy_accounts_file(sql::Connection& database, const std::filesystem::path& file);

std::filesystem::path backup_of(const std::filesystem::path& file);

}  // namespace gearbox::central
