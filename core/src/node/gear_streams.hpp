// gear_streams.hpp: streams between the scheduler that leads on one host and observer, executor and drivers of another
// one, through the nodes of both:
//
//   scheduler ─unix socket─ its node ═secure channel═ the other node ─unix sockets─ observer, executor, drivers
//
// One stream for each leader is kept open (gears_open, then gears_data), and opened anew before its ticket is over. The
// node at the far end is the gate: it looks, with every question, whether its configuration still names the leader and
// its ticket still counts, and passes on what gear_questions.hpp lists.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/state_dir.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "node/node_dialler.hpp"
#include "session/identity.hpp"

namespace gearbox::node {

class GearStreams {
 public:
  static constexpr std::size_t kMostAtOnce = 16;  // questions of one stream that wait for their answers

  struct Setup {
    boost::asio::io_context* io = nullptr;
    config::StateDir state;
    std::shared_ptr<NodeDialler> nodes;  // reaches the other nodes
    std::string node;                    // this one's name
    /// gears.leaders, as it is in force now.
    std::function<std::vector<std::string>()> leaders;
    /// Errors: expired_ticket, not_allowed.
    std::function<Outcome<void>(const session::Identity&)> still_good;
    std::function<milliseconds(const wire::Ticket&)> time_left;
  };
  explicit GearStreams(Setup setup) : setup_(std::move(setup)) {}

  /// A connection that has sent gears_open: serves it until its end. `text`: its JSON. From this host it is a
  /// scheduler, for which another node is dialled; from another node it is one that wants to decide here. Errors:
  /// not_allowed; bad_frame; no_node and what else central says; unreachable: before the stream was open.
  static boost::asio::awaitable<Outcome<void>> serve(std::shared_ptr<GearStreams> self,
                                                     std::shared_ptr<net::FrameStream> from, std::string text,
                                                     session::Identity who);

 private:
  using FrameStream = net::FrameStream;
  static boost::asio::awaitable<Outcome<void>> pass_on(std::shared_ptr<GearStreams> self,
                                                       std::shared_ptr<FrameStream> from, std::string node);
  static boost::asio::awaitable<Outcome<void>> answer(std::shared_ptr<GearStreams> self,
                                                      std::shared_ptr<FrameStream> from, session::Identity who);
  static boost::asio::awaitable<Outcome<void>> take(std::shared_ptr<GearStreams> self,
                                                    std::shared_ptr<FrameStream> from, wire::FrameHeader header,
                                                    std::string leader, std::shared_ptr<std::size_t> open);
  static boost::asio::awaitable<void> answer_one(std::shared_ptr<GearStreams> self, std::shared_ptr<FrameStream> from,
                                                 RequestId id, std::string text, std::string leader,
                                                 std::shared_ptr<std::size_t> open);
  static boost::asio::awaitable<Outcome<std::string>> ask_here(std::shared_ptr<GearStreams> self, std::string text,
                                                               std::string leader);
  Outcome<void> may_decide(const session::Identity& who) const;

  Setup setup_;
  /// Of one leader: the one before may have an answer to give still; a third one takes its place.
  struct Open {
    std::weak_ptr<FrameStream> last, before;
  };
  std::map<std::string, Open> open_;  // by leader
};

}  // namespace gearbox::node
