#include "transport_tcp/tcp_url.hpp"

#include <algorithm>
#include <charconv>

#include "gearbox/base/text.hpp"

namespace gearbox::transport_tcp {

namespace {
constexpr std::string_view kPrefix = "tcp://";
constexpr std::size_t kMaxHostBytes = 253;  // of a DNS name

bool is_host(std::string_view host, bool bracketed) {
  return !host.empty() && host.size() <= kMaxHostBytes && host.front() != '-' &&
         std::all_of(host.begin(), host.end(), [&](char c) {
           const bool letter_or_digit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
           return letter_or_digit || c == '.' || c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
         });
}
}  // namespace

Outcome<TcpUrl> parse_url(std::string_view url) {
  const auto wrong = [&](const std::string& what) {
    return Error{Errc::bad_input, "'" + escaped(url, 128) + "': " + what + " (tcp://HOST:PORT)"};
  };
  if (url.substr(0, kPrefix.size()) != kPrefix) return wrong("is no tcp URL");
  const std::string_view rest = url.substr(kPrefix.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return wrong("has no port");
  TcpUrl parsed;
  std::string_view host = rest.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    parsed.bracketed = true;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 address stands in brackets, tcp://[::1]:PORT");
  }
  if (!is_host(host, parsed.bracketed)) return wrong("has no usable host");
  const std::string_view port = rest.substr(colon + 1);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || end != port.data() + port.size() || error == std::errc::invalid_argument)
    return wrong("the port is no number");
  if (error != std::errc() || number > 65535) return wrong("the port is out of range (0 to 65535)");
  parsed.host = std::string(host);
  parsed.port = static_cast<std::uint16_t>(number);
  return parsed;
}

std::string to_text(const TcpUrl& url) {
  const std::string host = url.bracketed ? "[" + url.host + "]" : url.host;
  return std::string(kPrefix) + host + ":" + std::to_string(url.port);
}

}  // namespace gearbox::transport_tcp
