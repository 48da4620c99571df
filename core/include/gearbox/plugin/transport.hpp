// transport.hpp: a Transport turns a URL into connected descriptors; all reading and writing is the core's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kTransportApi = 1;  // raise on any change to this file

/// A stream socket, non-blocking, close-on-exec; whoever holds the struct closes `descriptor`.
struct Connection {
  int descriptor = -1;
  std::string peer;        // for people: "192.0.2.7:51234"
  std::string peer_group;  // what rate limits count by: the address without the port (IPv6: its /64)
};

struct Listening {
  int descriptor = -1;  // readable when somebody waits to be accepted; the core owns it, also across a swap
  std::string url;      // with the real port when 0 was asked for
};

/// One instance may be called from several threads at once. Open connections and listening descriptors outlive it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// The URL schemes it serves, e.g. "tcp"; constant.
  virtual std::string_view scheme() const = 0;
  /// Errors: bad_input (the URL, with what is wrong); io_error ("address in use", "not permitted").
  virtual Outcome<Listening> listen(std::string_view url) = 0;
  /// Takes one waiting connection from a descriptor made by listen(). Never blocks.
  /// Errors: short_frame when nobody waits; no_space when descriptors are used up; closed when the peer has gone again.
  virtual Outcome<Connection> accept(int listening) = 0;
  /// Resolves the name anew, tries each of its addresses in turn; may block until `deadline`, so never call it on a
  /// strand. Errors: bad_input; unreachable (each address with its reason); timeout.
  virtual Outcome<Connection> connect(std::string_view url, Instant deadline) = 0;
};

template <>
struct KindTraits<Kind::transport> {
  using Class = Transport;
  static constexpr std::uint32_t kApi = kTransportApi;
};

}  // namespace gearbox::plugin
