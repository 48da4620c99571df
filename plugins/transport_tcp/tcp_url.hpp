// tcp_url.hpp: tcp://HOST:PORT, where HOST is a name, an IPv4 address or an IPv6 address in brackets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::transport_tcp {

struct TcpUrl {
  std::string host;  // without brackets
  std::uint16_t port = 0;
  bool bracketed = false;
};

/// Errors: bad_input, which quotes the URL (escaped) and says what is wrong with it.
Outcome<TcpUrl> parse_url(std::string_view url);

/// The reverse.
std::string to_text(const TcpUrl& url);

}  // namespace gearbox::transport_tcp
