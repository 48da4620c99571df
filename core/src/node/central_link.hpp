// central_link.hpp: the node's standing connection to central: reports once a second, learns time, ticket keys and
// revocations, comes back by itself. Devices that hold tickets are served whether or not central is there. One strand.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gearbox/link/keys.hpp"
#include "gearbox/link/ticket.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/transport.hpp"
#include "gearbox/wire/messages.hpp"
#include "node/learned_file.hpp"
#include "node/lease_relay.hpp"
#include "node/node_ways.hpp"

namespace gearbox::node {

class CentralLink : public std::enable_shared_from_this<CentralLink> {
 public:
  /// A connection that is there, and whose key must be at its other end.
  struct Dialled {
    plugin::Connection connection;
    std::string url;
    CentralKey key{};  // central's channel key
  };
  struct Setup {
    boost::asio::io_context* io = nullptr;
    link::SigningKeys keys;  // who this node is
    /// Finds central anew and connects; blocks up to `within` for each address, so it is called on a thread of its own.
    /// `another`: the one that it found last was of no use, so others come first this time.
    std::function<Outcome<Dialled>(milliseconds within, bool another)> dial;
    std::function<wire::NodeReport()> report;
    std::function<void()> learned;     // time, keys or revocations have come
    std::filesystem::path remember;    // what was learned is kept here for the node's next process; empty: it is not
    std::vector<CentralKey> centrals;  // whose words of before are heeded at the start
  };
  explicit CentralLink(Setup setup);

  static boost::asio::awaitable<void> run(std::shared_ptr<CentralLink> self);
  /// Reports now instead of at the next second: something that matters has changed.
  void hurry();
  void stop();
  /// Waits until nobody dials any more: what `dial` refers to may go after that.
  void join();

  /// Errors: bad_ticket, expired_ticket; not_allowed for a revoked device.
  Outcome<wire::Ticket> check(std::string_view ticket, const PublicKey& device) const;
  /// Is a session that began with this ticket still allowed to begin requests? Errors: expired_ticket, not_allowed.
  Outcome<void> still_good(const wire::Ticket& ticket, const PublicKey& device) const;
  bool is_revoked(const PublicKey& device) const { return revoked_.contains(device); }
  bool connected() const { return connected_; }
  const std::string& last_error() const { return last_error_; }

  /// What this host's scheduler asks of central's leases: see LeaseRelay. Errors: unreachable: central does not answer.
  Outcome<boost::json::object> lease(const boost::json::object& request);
  /// The way to a node, with a ticket for what is wanted there. Errors: what central says (no_node); unreachable:
  /// central does not answer; timeout; overloaded.
  static boost::asio::awaitable<Outcome<wire::Located>> way(std::shared_ptr<CentralLink> self, WantedWay wanted);
  /// Until the ticket is over; below zero: it is.
  milliseconds time_left(const wire::Ticket& ticket) const {
    return milliseconds(ticket.expires_unix_ms - central_now_ms());
  }

 private:
  static boost::asio::awaitable<Outcome<void>> visit(std::shared_ptr<CentralLink> self);
  static boost::asio::awaitable<Outcome<wire::Frame>> report(std::shared_ptr<CentralLink> self,
                                                             std::shared_ptr<net::FrameStream> stream);
  static boost::asio::awaitable<Outcome<void>> send_questions(std::shared_ptr<CentralLink> self,
                                                              std::shared_ptr<net::FrameStream> stream);
  void not_told(const Error& why);
  void learn(const wire::ReportOk& answer, const CentralKey& central);
  void take(const wire::ReportOk& answer);
  void remember(const wire::ReportOk& answer, const CentralKey& central);
  std::int64_t central_now_ms() const;

  Setup setup_;
  boost::asio::thread_pool dialler_{1};
  boost::asio::steady_timer pause_;
  std::shared_ptr<net::FrameStream> stream_;
  bool stopped_ = false;
  bool connected_ = false;
  bool hurried_ = false;
  bool useless_ = false;  // the last connection gave no answer to a report
  std::string last_error_;
  LeaseRelay leases_;
  NodeWays ways_;
  std::map<std::string, PublicKey> ticket_keys_;
  std::set<PublicKey> revoked_;
  std::int64_t central_unix_ms_ = 0;
  Instant learned_{};
  wire::ReportOk remembered_;  // as it was written last, at remembered_at_
  CentralKey remembered_of_{};
  Instant remembered_at_{};
  bool remember_failed_ = false;  // and said
};

}  // namespace gearbox::node
