#include "config/values.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "gearbox/base/text.hpp"
#include "gpu/devices.hpp"

namespace gearbox::config {

namespace {

bool is_scheme(std::string_view text) {
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
         });
}

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

std::string host_and_port_fault(std::string_view rest, UrlUse use) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return "has no port (tcp://HOST:PORT)";
  const std::string_view host = rest.substr(0, colon);
  const std::string_view port_text = rest.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool plain = !host.empty() && std::all_of(host.begin(), host.end(), is_host_char);
  if (!bracketed && host.find(':') != std::string_view::npos)
    return "has an IPv6 address outside of brackets (tcp://[::1]:7600)";
  if (!bracketed && !plain) return "has no usable host name";
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  const std::uint32_t lowest = use == UrlUse::listen ? 0 : 1;
  if (error == std::errc::invalid_argument || end != port_text.data() + port_text.size())
    return "has a port that is no number";
  if (error != std::errc() || port > 65535 || port < lowest) {
    return "port " + std::string(port_text.substr(0, 20)) + " is out of range (" + std::to_string(lowest) +
           " to 65535)";
  }
  return {};
}

bool is_zero(std::uint8_t byte) {
  return byte == 0;
}

}  // namespace

std::string url_fault(std::string_view url, UrlUse use) {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos || !is_scheme(url.substr(0, mark))) return "is no URL (tcp://HOST:PORT)";
  const std::string_view rest = url.substr(mark + 3);
  const bool printable = std::all_of(rest.begin(), rest.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (rest.empty() || !printable) return "has nothing usable after ://";
  return url.substr(0, mark) == "tcp" ? host_and_port_fault(rest, use) : std::string();
}

std::string read_url(const toml::Table& table, std::string_view key, std::string_view fallback, UrlUse use) {
  const std::string url = table.text(key, fallback, 300);
  if (url.empty()) {
    if (!fallback.empty()) table.fault(key, "is empty (tcp://HOST:PORT)");
    return url;
  }
  if (const std::string wrong = url_fault(url, use); !wrong.empty()) table.fault(key, "'" + url + "' " + wrong);
  return url;
}

bool is_wildcard(std::string_view url) {
  constexpr std::string_view kTcp = "tcp://";
  const std::size_t colon = url.rfind(':');
  if (url.substr(0, kTcp.size()) != kTcp || colon < kTcp.size()) return false;
  std::string host(url.substr(kTcp.size(), colon - kTcp.size()));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    in6_addr address{};
    if (::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &address) != 1) return false;
    // The IPv4 wildcard in IPv6's clothes, ::ffff:0.0.0.0, has its last four bytes zero as well.
    if (IN6_IS_ADDR_V4MAPPED(&address)) return std::all_of(address.s6_addr + 12, address.s6_addr + 16, is_zero);
    return IN6_IS_ADDR_UNSPECIFIED(&address);
  }
  in_addr address{};
  return ::inet_aton(host.c_str(), &address) != 0 && address.s_addr == INADDR_ANY;
}

std::string read_devices(const toml::Table& table, std::string_view key) {
  const std::string devices = table.text(key, "", 128);
  if (!gpu::read_devices(devices)) {
    table.fault(key, "'" + devices +
                         "' is no list of devices (\"cpu\"; \"cuda\", a GPU that the node chooses; \"cuda:0\"; "
                         "\"cuda:0,cuda:1\", each once)");
  }
  return devices;
}

milliseconds read_ms(const toml::Table& table, std::string_view key, milliseconds fallback, std::int64_t lowest,
                     std::int64_t highest) {
  return milliseconds(table.integer(key, fallback.count(), lowest, highest));
}

std::uint32_t read_count(const toml::Table& table, std::string_view key, std::uint32_t fallback, std::int64_t lowest,
                         std::int64_t highest) {
  return static_cast<std::uint32_t>(table.integer(key, fallback, lowest, std::min<std::int64_t>(highest, UINT32_MAX)));
}

std::uint64_t read_mb(const toml::Table& table, std::string_view key, std::uint64_t fallback_bytes,
                      std::int64_t lowest_mb, std::int64_t highest_mb) {
  const std::int64_t fallback_mb = static_cast<std::int64_t>(fallback_bytes >> 20);
  return static_cast<std::uint64_t>(table.integer(key, fallback_mb, lowest_mb, highest_mb)) << 20;
}

}  // namespace gearbox::config
