// accounts_state.hpp: what an Accounts object holds; private to the files that implement it.
#pragma once

#include <filesystem>

#include "central/accounts.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::central {

struct Accounts::State {
  std::filesystem::path file;
  sqlite::Database database;
  sqlite::Statement password, user, login, node, version, next_command;  // asked often: prepared once
};

}  // namespace gearbox::central
