// accounts_database.hpp: central's accounts in a PostgreSQL database, in the schema "gearbox": made, brought up to
// date, connected to. One row of gearbox.central says which central leads (its term), counts all changes, and names the
// keys that the centrals of this database have.
#pragma once

#include <memory>
#include <string>

#include "central/accounts_place.hpp"
#include "gearbox/base/outcome.hpp"
#include "sql/connection.hpp"

namespace gearbox::central {

inline constexpr const char* kChangesOfAll = "SELECT changes FROM gearbox.central";

/// What each connection to it begins with.
std::string database_set_up();

/// `found`: of the database; empty: it has none. Errors: bad_config, with what to do, when this host knows another one.
Outcome<void> check_installation(const AccountsPlace& place, const std::string& found);

/// Makes the schema when there is none, upgrades an older one. Each write transaction begins by locking the row: writes
/// come one after the other, as with SQLite, and none comes from a central whose term is over.
/// Errors: overloaded (away, or busy), unsupported_version (of a later Gearbox), io_error (rights, say);
/// those of check_installation.
Outcome<std::unique_ptr<sql::Connection>> open_accounts_database(const AccountsPlace& place);

/// For people: looks, and changes nothing. "schema 4, term 7", or that there are no accounts yet. Errors: as above.
Outcome<std::string> look_at_accounts_database(const AccountsPlace& place);

}  // namespace gearbox::central
