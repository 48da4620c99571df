// server_turn.hpp: several servers in one connection string: which one is asked first.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gearbox::sql {

/// libpq goes on to the next server when one refuses, not when one takes the connection and falls silent. The words
/// ("host", "hostaddr", "port") that replace those of `connection`, so that the list begins `turn` places later.
/// Empty: nothing is to be replaced; there are not several servers, say.
std::vector<std::pair<std::string, std::string>> turned_servers(const std::string& connection, std::size_t turn);

}  // namespace gearbox::sql
