// tcp_transport.hpp: the transport for tcp://HOST:PORT.
#pragma once

#include "gearbox/plugin/transport.hpp"
#include "transport_tcp/resolve.hpp"
#include "transport_tcp/socket_options.hpp"

namespace gearbox::transport_tcp {

class TcpTransport final : public plugin::Transport {
 public:
  explicit TcpTransport(const Settings& settings = {}) : settings_(settings) {}
  std::string_view scheme() const override { return "tcp"; }
  /// A name listens on the first of its addresses that can be bound; [::] takes IPv4 as well.
  Outcome<plugin::Listening> listen(std::string_view url) override;
  Outcome<plugin::Connection> accept(int listening) override;
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override;

 private:
  Settings settings_;
  Resolver resolver_;
};

}  // namespace gearbox::transport_tcp
