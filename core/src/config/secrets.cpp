#include "config/secrets.hpp"

#include <algorithm>
#include <cctype>

namespace gearbox::config {

namespace {

constexpr std::string_view kHidden = "***";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Where the value that begins at `from` ends: behind its closing quote, or before a blank or what divides a URL's
/// query.
std::size_t end_of_value(std::string_view text, std::size_t from) {
  if (from >= text.size() || (text[from] != '\'' && text[from] != '"')) {
    return std::min(text.find_first_of(" \t\n&;", from), text.size());
  }
  for (std::size_t at = from + 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == text[from]) {
      return at + 1;
    }
  }
  return text.size();
}

void hide_assigned(std::string& text) {
  constexpr std::string_view kWord = "password";
  for (std::size_t at = 0; (at = lower(text).find(kWord, at)) != std::string::npos;) {
    at += kWord.size();
    const std::size_t sign = text.find_first_not_of(" \t", at);
    if (sign == std::string::npos || text[sign] != '=') continue;
    const std::size_t value = std::min(text.find_first_not_of(" \t", sign + 1), text.size());
    text.replace(value, end_of_value(text, value) - value, kHidden);
    at = value + kHidden.size();
  }
}

void hide_in_urls(std::string& text) {
  constexpr std::string_view kSign = "://";
  for (std::size_t at = 0; (at = text.find(kSign, at)) != std::string::npos;) {
    at += kSign.size();
    // A password may hold what divides a URL: the last "@" of the word counts, as long as no host can lie before it.
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::size_t path = std::min(text.find_first_of("/?#", at), end);
    std::size_t host = text.rfind('@', path);
    if (host == std::string::npos || host < at) {
      const std::size_t first_colon = text.find(':', at);
      const bool port = first_colon < path && text.find_first_not_of("0123456789", first_colon + 1) >= path;
      host = first_colon < path && !port ? text.rfind('@', end) : std::string::npos;
    }
    const std::size_t colon = text.find(':', at);
    if (host == std::string::npos || host < at || colon == std::string::npos || colon > host) continue;
    text.replace(colon + 1, host - colon - 1, kHidden);
  }
}

}  // namespace

bool names_a_secret(std::string_view key) {
  const std::string name = lower(key);
  if (name.ends_with("_file") || name.ends_with("_path")) return false;
  for (const std::string_view word : {"password", "passwd", "secret", "token", "api_key", "apikey", "private_key"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

std::string hidden(std::string_view value) {
  return value.empty() ? std::string() : std::string(kHidden);
}

std::string without_passwords(std::string_view text) {
  std::string out(text);
  hide_assigned(out);
  hide_in_urls(out);
  return out;
}

}  // namespace gearbox::config
