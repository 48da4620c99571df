// node_dialler.hpp: reaching another node for something that central gives a ticket for: asks central the way, connects
// by a transport plugin, makes the secure channel, and shows the ticket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <memory>
#include <string>

#include "gearbox/link/keys.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/transport.hpp"
#include "node/central_link.hpp"

namespace gearbox::node {

class NodeDialler {
 public:
  using Stream = Outcome<std::shared_ptr<net::FrameStream>>;
  struct Setup {
    boost::asio::io_context* io = nullptr;
    link::SigningKeys keys;                // who this node is
    std::shared_ptr<CentralLink> central;  // knows the way to other nodes
    /// Connects; may block until the deadline, so it is called on a thread of its own.
    std::function<Outcome<plugin::Connection>(const std::string& url, Instant deadline)> connect;
  };
  explicit NodeDialler(Setup setup) : setup_(std::move(setup)) {}

  /// A stream whose other end has said hello_ok. Errors: no_node and what else central says; what the node says;
  /// unreachable, timeout.
  static boost::asio::awaitable<Stream> reach(std::shared_ptr<NodeDialler> self, WantedWay wanted);
  /// Waits until nobody dials any more: what `connect` refers to may go after that.
  void join();

 private:
  static boost::asio::awaitable<Stream> dial(std::shared_ptr<NodeDialler> self, wire::Located way);

  Setup setup_;
  boost::asio::thread_pool diallers_{2};
};

}  // namespace gearbox::node
