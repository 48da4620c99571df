// accounts_state.hpp: what an Accounts object holds; private to the files that implement it.
#pragma once

#include <filesystem>
#include <memory>

#include "central/accounts.hpp"
#include "sql/connection.hpp"

namespace gearbox::central {

struct Accounts::State {
  std::filesystem::path file;  // SQLite's; empty: PostgreSQL, whose copies are not our business
  std::unique_ptr<sql::Connection> database;
  sql::Statement password, user, login, node, version, next_command;  // asked often: prepared once
};

}  // namespace gearbox::central
