#include "sql/connection_string.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <memory>

#include "gearbox/base/text.hpp"

namespace gearbox::sql {

namespace {

struct Free {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

/// libpq's reason repeats pieces of the text, which are shown when none of them can be a password.
std::string fault_of(std::string_view text, char* reason) {
  std::string line = reason == nullptr ? "not understood" : reason;
  PQfreemem(reason);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (line.ends_with(' ')) line.pop_back();
  const bool may_hold_one = text.find("pass") != std::string_view::npos || text.find('@') != std::string_view::npos;
  return may_hold_one ? "not understood by libpq" : escaped(line, 200);
}

}  // namespace

Outcome<void> check_connection_string(std::string_view text) {
  const bool is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
  if (!is_url && text.find('=') == std::string_view::npos) {
    return Error{Errc::bad_config, "expected \"sqlite\", \"postgresql://HOST/DATABASE\" or \"host=... dbname=...\""};
  }
  char* reason = nullptr;
  const std::unique_ptr<PQconninfoOption, Free> options(PQconninfoParse(std::string(text).c_str(), &reason));
  if (!options) return Error{Errc::bad_config, fault_of(text, reason)};
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    const std::string_view word = option->keyword;
    if (option->val == nullptr || (word != "password" && word != "sslpassword")) continue;
    return Error{Errc::bad_config,
                 "holds a password: put it into ~/.pgpass of the broker's user, or into a file that PGPASSFILE or "
                 "passfile= names, both with mode 0600"};
  }
  return done();
}

}  // namespace gearbox::sql
