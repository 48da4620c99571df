#include "sink/http_url.hpp"

#include <algorithm>
#include <charconv>

namespace gearbox::sink {

namespace {

Error wrong(std::string_view what) {
  return Error{Errc::bad_config, "url: " + std::string(what)};
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

std::string HttpUrl::host_header() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == "80" ? name : name + ":" + port;
}

Outcome<HttpUrl> http_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) return wrong("https is not spoken here: let a proxy on this host do it");
  if (!url.starts_with(kScheme)) return wrong("expected http://HOST[:PORT]/PATH");
  // What stands in it goes into the request's head as it is.
  if (!is_plain(url)) return wrong("holds a space, a control character or a letter that is not ASCII");
  url.remove_prefix(kScheme.size());
  HttpUrl parts;
  const std::size_t slash = std::min(url.find_first_of("/?#"), url.size());
  std::string_view authority = url.substr(0, slash);
  std::string_view target = url.substr(slash);
  target = target.substr(0, target.find('#'));
  parts.target = (target.starts_with('/') ? "" : "/") + std::string(target);
  if (authority.find('@') != std::string_view::npos) return wrong("names a user: use authorization_file");
  std::size_t host_end = authority.rfind(':');
  if (authority.starts_with('[')) {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return wrong("a bracket is not closed");
    parts.host = authority.substr(1, bracket - 1);
    if (bracket + 1 < authority.size() && authority[bracket + 1] != ':') return wrong("expected :PORT after ]");
    host_end = bracket + 1 < authority.size() ? bracket + 1 : std::string_view::npos;
  } else {
    parts.host = authority.substr(0, host_end);
  }
  if (parts.host.empty()) return wrong("names no host");
  parts.port = host_end == std::string_view::npos ? "80" : authority.substr(host_end + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  if (error != std::errc() || end != parts.port.data() + parts.port.size() || port == 0 || port > 65535) {
    return wrong("the port is no number from 1 to 65535");
  }
  return parts;
}

}  // namespace gearbox::sink
