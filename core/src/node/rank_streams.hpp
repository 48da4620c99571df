// rank_streams.hpp: streams between a group's driver on one host and its ranks on another one, through the nodes of
// both:
//
//   driver ─unix socket─ its node ═secure channel═ the other node ─unix socket─ rank host, which starts the rank
//
// A stream is a connection of its own. Both ends speak frames (ranks_open, then ranks_data); what is in them is the
// engine's. Either end's end is that of all of it. A silent node is asked for a sign of life, so that a cut link is
// noticed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "gearbox/link/keys.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/transport.hpp"
#include "node/central_link.hpp"
#include "session/identity.hpp"

namespace gearbox::node {

class RankStreams {
 public:
  struct Setup {
    boost::asio::io_context* io = nullptr;
    link::SigningKeys keys;                // who this node is
    std::filesystem::path hosts;           // folder of the rank hosts' sockets: MODEL.sock
    std::shared_ptr<CentralLink> central;  // knows the way to other nodes
    /// Connects; may block until the deadline, so it is called on a thread of its own.
    std::function<Outcome<plugin::Connection>(const std::string& url, Instant deadline)> connect;
  };
  explicit RankStreams(Setup setup) : setup_(std::move(setup)) {}

  /// A connection that has asked for a rank: serves it until its end. `text`: the JSON of ranks_open. From this host it
  /// is a driver, for whom another node is dialled; from another node it is one for a rank host here.
  /// Errors: not_allowed; bad_input; no_node and what else central says; unreachable: before the stream was open.
  static boost::asio::awaitable<Outcome<void>> serve(std::shared_ptr<RankStreams> self,
                                                     std::shared_ptr<net::FrameStream> from, std::string text,
                                                     session::Identity who);
  /// Waits until nobody dials any more: what `connect` refers to may go after that.
  void join();

 private:
  using Stream = Outcome<std::shared_ptr<net::FrameStream>>;
  static boost::asio::awaitable<Stream> reach_node(std::shared_ptr<RankStreams> self, std::string node,
                                                   std::string group);
  static boost::asio::awaitable<Stream> dial(std::shared_ptr<RankStreams> self, wire::Located way);
  Stream reach_host(const std::string& group) const;

  Setup setup_;
  boost::asio::thread_pool diallers_{2};
};

}  // namespace gearbox::node
