#include "sql/server_turn.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace gearbox::sql {

namespace {

struct Free {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> turned_servers(const std::string& connection, std::size_t turn) {
  const std::unique_ptr<PQconninfoOption, Free> options(PQconninfoParse(connection.c_str(), nullptr));
  std::vector<std::pair<std::string, std::string>> words;
  if (turn == 0 || !options) return words;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    const std::string_view word = option->keyword;
    if (option->val == nullptr || (word != "host" && word != "hostaddr" && word != "port")) continue;
    std::vector<std::string> parts = parts_of(option->val);
    if (parts.size() < 2) continue;  // one port is that of all
    const auto first = parts.begin() + static_cast<std::ptrdiff_t>(turn % parts.size());
    std::rotate(parts.begin(), first, parts.end());
    std::string list = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) list += "," + parts[i];
    words.emplace_back(word, list);
  }
  return words;
}

}  // namespace gearbox::sql
