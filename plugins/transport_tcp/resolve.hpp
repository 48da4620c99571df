// resolve.hpp: from a host to its addresses, within a deadline, anew each time.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <mutex>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "transport_tcp/tcp_url.hpp"

namespace gearbox::transport_tcp {

using Endpoint = boost::asio::ip::tcp::endpoint;

/// Thread-safe. Asio's own resolver waits for a stuck name server when it is destroyed; this one gives up at the
/// deadline, and what glibc's resolver thread still writes to is kept until it is done.
class Resolver {
 public:
  Resolver();
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// At least one. Errors: bad_input (no such address form); unreachable (no such name, with the resolver's reason);
  /// timeout; overloaded when too many lookups of earlier calls still hang.
  Outcome<std::vector<Endpoint>> resolve(const TcpUrl& url, Instant deadline);

 private:
  struct Lookup;
  void keep_until_done(std::unique_ptr<Lookup> lookup);
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lookup>> hanging_;
};

}  // namespace gearbox::transport_tcp
