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

#include <filesystem>
#include <memory>
#include <string>

#include "gearbox/net/frame_stream.hpp"
#include "node/node_dialler.hpp"
#include "session/identity.hpp"

namespace gearbox::node {

class RankStreams {
 public:
  struct Setup {
    boost::asio::io_context* io = nullptr;
    std::filesystem::path hosts;         // folder of the rank hosts' sockets: MODEL.sock
    std::shared_ptr<NodeDialler> nodes;  // reaches the other nodes
  };
  explicit RankStreams(Setup setup) : setup_(std::move(setup)) {}

  /// A connection that has asked for a rank: serves it until its end. `text`: the JSON of ranks_open. From this host it
  /// is a driver, for whom another node is dialled; from another node it is one for a rank host here.
  /// Errors: not_allowed; bad_input; no_node and what else central says; unreachable: before the stream was open.
  static boost::asio::awaitable<Outcome<void>> serve(std::shared_ptr<RankStreams> self,
                                                     std::shared_ptr<net::FrameStream> from, std::string text,
                                                     session::Identity who);

 private:
  using Stream = NodeDialler::Stream;
  Stream reach_host(const std::string& group) const;

  Setup setup_;
};

}  // namespace gearbox::node
