// secrets.hpp: passwords that somebody wrote into an option of a plugin, before it is shown or logged.
#pragma once

#include <string>
#include <string_view>

namespace gearbox::config {

/// `text` with "***" in place of what follows "password=" (any case, blanks around the sign, quotes), and of the
/// password in SCHEME://USER:PASSWORD@HOST. Plugins of ours refuse both; others may not.
std::string without_passwords(std::string_view text);

}  // namespace gearbox::config
