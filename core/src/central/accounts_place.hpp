// accounts_place.hpp: where central's accounts are: a file of its own, or a database that several centrals share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

struct AccountsPlace {
  std::filesystem::path file;  // SQLite, when there is no `database`
  std::string database;        // how libpq finds it; without a password
  /// Of the central that serves: what it writes is refused once another one has a later term. 0: of the command line,
  /// which may always write.
  std::int64_t term = 0;
  /// On a thread that serves others meanwhile, calls wait less for a database that is away.
  bool on_loop = false;
  /// Of a shared database: which installation's accounts this host knows to be in it. Empty: it was never there.
  std::string installation;

  bool is_shared() const { return !database.empty(); }
};

/// With the installation that was noted.
AccountsPlace accounts_place(const config::StateDir& state, const config::CentralConfig& central);

/// Keeps in the state folder where its central has the accounts, for a command line that is given no configuration.
/// The installation stays noted once it is. Errors: io_error, no_space.
Outcome<void> note_accounts_place(const config::StateDir& state, const AccountsPlace& place);

/// As noted; nothing was: a place without file and database. Errors: io_error.
Outcome<AccountsPlace> noted_accounts_place(const config::StateDir& state);

}  // namespace gearbox::central
