// http_url.hpp: http://HOST[:PORT][/PATH], taken apart.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sink {

struct HttpUrl {
  std::string host;    // a name, an IPv4 address, or an IPv6 address without its brackets
  std::string port;    // "80" when the URL names none
  std::string target;  // path and query, "/" at least
  std::string host_header() const;
};

/// Errors: bad_config: what is wrong with it; https:// is not spoken here.
Outcome<HttpUrl> http_url(std::string_view url);

}  // namespace gearbox::sink
