// server_state.hpp: what all sessions of one central share. One strand; accounts are read on it, written on the pool.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "central/accounts.hpp"
#include "central/password_pool.hpp"
#include "central/placement.hpp"
#include "central/placement_book.hpp"
#include "central/rate_limiter.hpp"
#include "central/registry.hpp"
#include "config/config.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/frame.hpp"
#include "serving/log_budget.hpp"

namespace gearbox::central {

namespace asio = boost::asio;

/// Central's time: the wall clock at the start, aged on the monotonic one, so that a jump of the wall clock neither
/// expires nor revives a ticket.
class CentralTime {
 public:
  CentralTime(std::int64_t wall_unix_ms, Instant at) : wall_unix_ms_(wall_unix_ms), at_(at) {}
  std::int64_t unix_ms(Instant now) const { return wall_unix_ms_ + elapsed(at_, now).count() / 1000; }

 private:
  std::int64_t wall_unix_ms_;
  Instant at_;
};

struct Counters {
  std::uint64_t handshakes_failed = 0;  // garbage, TLS, HTTP, another version, silence
  std::uint64_t logins = 0, logins_failed = 0;
  std::uint64_t enrols = 0, enrols_failed = 0, rate_limited = 0, overloaded = 0;
  std::uint64_t node_logins = 0, node_reports = 0;
  std::uint64_t located = 0, not_located = 0;
};

struct ServerState {
  ServerState(asio::any_io_executor on, config::CentralConfig given, Placement place, Instant now,
              std::int64_t wall_unix_ms)
      : executor(on),
        config(std::move(given)),
        limiter(config.password_tries_per_minute),
        registry(config.node_silent),
        placement(std::move(place)),
        placements(wall_unix_ms),
        time(wall_unix_ms, now),
        started(now),
        housekeeping(on),
        drained(on) {}

  asio::any_io_executor executor;
  config::CentralConfig config;
  std::string url;
  std::string config_digest;
  link::ChannelKeys channel;
  link::SigningKeys signing;
  std::string key_id;                  // of the signing key
  std::unique_ptr<Accounts> accounts;  // this strand's own connection: reads
  std::shared_ptr<PasswordPool> pool;
  RateLimiter limiter;
  Registry registry;
  Placement placement;
  PlacementBook placements;
  CentralTime time;
  Instant started;
  Counters counters;
  serving::LogBudget stranger_log{10, seconds{10}};  // lines that strangers cause
  std::set<std::shared_ptr<net::FrameStream>> open;
  std::set<std::shared_ptr<net::FrameStream>> nodes_open;  // those of them that belong to nodes
  bool stopping = false;
  asio::steady_timer housekeeping;
  asio::steady_timer drained;  // cancelled when the last connection has ended while stopping

  // Revocations as they travel to the nodes, read again when the database changed.
  std::int64_t revoked_version = -1;
  std::vector<std::string> revoked;
  // When and from where devices logged in, written now and then in one go.
  std::map<PublicKey, DeviceContact> last_seen;
  /// What a node asks of leases for its host; empty: none are kept here. See central/leases.hpp, lease_command().
  std::function<Outcome<boost::json::object>(const boost::json::object&)> lease;
};

/// One connection of a stranger, from its first byte to its end: handshake, who are you, then serve_device or
/// serve_node.
asio::awaitable<void> serve_connection(std::shared_ptr<ServerState> state, std::shared_ptr<net::FrameStream> stream,
                                       std::string peer_group);

/// A device that has proven its key: gives it its commands when it asks for them, answers its locate, then ends. `user`
/// is its account, `agent` what it calls its program.
asio::awaitable<void> serve_device(std::shared_ptr<ServerState> state, std::shared_ptr<net::FrameStream> stream,
                                   User user, PublicKey device, std::string agent);

/// Sends the device its commands, one by one, each when the one before it has its answer on disk; returns when none is
/// left, or when it does not answer in time. `waiting` gets the frames that came meanwhile, in order, at most 4: they
/// are answered after that. Errors: of the connection.
asio::awaitable<Outcome<void>> deliver_commands(std::shared_ptr<ServerState> state,
                                                std::shared_ptr<net::FrameStream> stream, PublicKey device,
                                                std::shared_ptr<std::deque<wire::Frame>> waiting);

/// Writes down what a device answered. Errors: bad_frame; overloaded: it will be asked again.
asio::awaitable<Outcome<void>> take_command_answer(std::shared_ptr<ServerState> state, PublicKey device,
                                                   std::string json);

/// A node that has proven its key: takes its reports until it falls silent, is displaced, or is removed.
asio::awaitable<void> serve_node(std::shared_ptr<ServerState> state, std::shared_ptr<net::FrameStream> stream,
                                 NodeEntry node);

}  // namespace gearbox::central
