// link_responder.hpp: answers the probes of other hosts' observers.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "gearbox/base/outcome.hpp"

namespace gearbox::observer {

/// Everything on the strand of its executor. The destructor ends all connections.
class LinkResponder {
 public:
  static constexpr std::size_t kMost = 128;  // connections at once; more are closed at once

  /// `place`: "HOST:PORT", the host an address of this host; port 0: any. Errors: unreachable: it cannot listen there.
  static Outcome<std::unique_ptr<LinkResponder>> listen(boost::asio::any_io_executor executor,
                                                        const std::string& place);
  ~LinkResponder();
  std::uint16_t port() const;

 private:
  struct State;
  explicit LinkResponder(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

struct HostPort {
  std::string host, port;
};
/// "[::1]:7611" → "::1", "7611". The configuration has checked its form.
HostPort host_port(const std::string& place);

}  // namespace gearbox::observer
