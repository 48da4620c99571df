// secrets.hpp: passwords that somebody wrote into an option of a plugin, before it is shown or logged.
#pragma once

#include <string>
#include <string_view>

namespace gearbox::config {

/// `text` with "***" in place of what follows "password=" (any case, blanks around the sign, quotes), and of the
/// password in SCHEME://USER:PASSWORD@HOST. Plugins of ours refuse both; others may not.
std::string without_passwords(std::string_view text);

/// Is an option of that name a secret as a whole? "password", "db_password", "token", "api_key", "secret" ...; not the
/// name of a file that holds one.
bool names_a_secret(std::string_view key);
/// "***"; empty stays empty.
std::string hidden(std::string_view value);

}  // namespace gearbox::config
