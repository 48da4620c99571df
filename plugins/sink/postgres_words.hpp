// postgres_words.hpp: what must not be said aloud: passwords in the configuration, and values of rows in error
// messages.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sink {

/// Is it a connection string or URL of libpq without a password in it? The configuration is shown and logged.
/// Errors: bad_config, in words that repeat nothing of it.
Outcome<void> check_connection(const std::string& connection);

/// An error of the server in one line: "SQLSTATE 23505: duplicate key value violates ...". `message` is the server's
/// text; its detail, hint and context, which may show whole rows, are left out, and so are quoted pieces where the
/// value itself is what was wrong (class 22).
std::string error_words(std::string_view sqlstate, std::string_view message);

}  // namespace gearbox::sink
