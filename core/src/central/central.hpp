// central.hpp: the role central: accounts, registry of nodes, placement, tickets.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "central/accounts_place.hpp"
#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "explain/trace.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/transport.hpp"

namespace gearbox::central {

/// The server on one strand of `io`, without signals and control socket: what run_central and the tests run.
class Central {
 public:
  struct Setup {
    boost::asio::io_context* io = nullptr;  // outlives the server
    config::StateDir state;
    std::optional<AccountsPlace>
        accounts;  // with the term of the one that serves; nothing: the state folder's own file
    config::Snapshot config;
    std::shared_ptr<plugin::Transport> transport;  // for config.central.listen
    std::shared_ptr<plugin::Balancer> balancer;
    explain::ChooserPtr chooser;  // which build it is of
  };
  /// Opens keys and accounts, listens, accepts. Errors: those of their opening; io_error (address in use).
  static Outcome<std::unique_ptr<Central>> start(Setup setup);
  ~Central();  // io must have been stopped, or have run out of work after stop()

  /// What may change while it runs: configuration (its restart keys are as before) and plugins' objects. On the strand.
  /// Open connections stay; newcomers are accepted by the new transport.
  struct Change {
    config::Snapshot config;
    std::shared_ptr<plugin::Transport> transport;
    std::shared_ptr<plugin::Balancer> balancer;
    explain::ChooserPtr chooser;
  };
  void apply(Change change);

  /// Who answers what nodes ask of leases, for schedulers of their hosts; on the strand. Without: nobody does.
  void keep_leases(std::function<Outcome<boost::json::object>(const boost::json::object&)> lease);

  const std::string& url() const;  // with the real port
  std::array<std::byte, 32> channel_key() const;
  /// The facts behind `broker status`.
  boost::json::object status() const;
  /// Why a device was sent where it was. Errors: not_found.
  Outcome<boost::json::object> placement(std::uint64_t number) const;

  /// Takes nobody new, lets go of the nodes, gives devices a moment to get their answers; then `stopped` is called.
  void stop(std::function<void()> stopped);

 private:
  struct Running;
  explicit Central(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

}  // namespace gearbox::central
