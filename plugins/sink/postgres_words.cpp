#include "sink/postgres_words.hpp"

#include <libpq-fe.h>

#include <memory>

namespace gearbox::sink {

namespace {

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { ::PQconninfoFree(options); }
};
struct FreeText {
  void operator()(char* text) const { ::PQfreemem(text); }
};

bool is_secret(std::string_view keyword) {
  return keyword == "password" || keyword == "sslpassword";
}

/// Each piece in double quotes, from the first quote to the last: a value may have some inside.
std::string without_quoted(std::string_view text) {
  const std::size_t first = text.find('"');
  const std::size_t last = text.rfind('"');
  if (first == std::string_view::npos) return std::string(text);
  const std::string_view behind = first == last ? std::string_view() : text.substr(last + 1);
  return std::string(text.substr(0, first)) + "\"...\"" + std::string(behind);
}

}  // namespace

Outcome<void> check_connection(const std::string& connection) {
  char* text = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(::PQconninfoParse(connection.c_str(), &text));
  const std::unique_ptr<char, FreeText> complaint(text);  // not told: it quotes pieces, a password maybe
  if (!options) {
    return Error{Errc::bad_config,
                 "connection: libpq does not understand it: expected \"host=... dbname=...\" or "
                 "postgresql://HOST/DBNAME"};
  }
  for (const PQconninfoOption* each = options.get(); each->keyword != nullptr; ++each) {
    if (is_secret(each->keyword) && each->val != nullptr) {
      return Error{Errc::bad_config, "connection: holds a " + std::string(each->keyword) +
                                         ", and the configuration is shown and logged: put it into ~/.pgpass of the "
                                         "broker's user, or into another file and name that with passfile="};
    }
  }
  return done();
}

std::string error_words(std::string_view sqlstate, std::string_view message) {
  message = message.substr(0, message.find('\n'));
  // "ERROR:  what is wrong", in the server's language.
  if (const std::size_t colon = message.find(":  "); colon != std::string_view::npos) message.remove_prefix(colon + 3);
  const bool names_values = sqlstate.starts_with("22");
  return "SQLSTATE " + std::string(sqlstate) + ": " + (names_values ? without_quoted(message) : std::string(message));
}

}  // namespace gearbox::sink
