// connection_string.hpp: what a configuration may say of a PostgreSQL server.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sql {

/// `text` is a URL or words that libpq understands, and holds no password: a configuration is shown, logged and copied.
/// Errors: bad_config, with what to do; nothing of a text that may hold a password is repeated in it.
Outcome<void> check_connection_string(std::string_view text);

}  // namespace gearbox::sql
