// password.hpp: where enrolment's password comes from.
#pragma once

#include <string>

#include "gearbox/base/outcome.hpp"

namespace gearbox::client {

/// One line, without its end: asked for on the terminal without echo when `file` is empty, else from the file ("-":
/// standard input). Errors: bad_input when there is no terminal, the line is empty or over 1024 bytes; io_error with
/// the path.
Outcome<std::string> read_password(const std::string& file);

}  // namespace gearbox::client
