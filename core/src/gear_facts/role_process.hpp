// role_process.hpp: what the processes observer, scheduler and executor have in common: configuration and its changes,
// control socket, signals, exit code.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/outcome.hpp"
#include "live/follower.hpp"

namespace gearbox::gear_facts {

/// One role's own work. Everything on the strand of its io_context, but where it says otherwise.
class Role {
 public:
  virtual ~Role() = default;
  /// The control socket listens: begin to work.
  virtual void begin() = 0;
  /// A first signal came: finish what must not be cut, within a second or so, then call `ended`.
  virtual void end(std::function<void()> ended) { ended(); }
  /// Facts of its own for "status"; "role", "pid", "version", "uptime_ms" are there already.
  virtual void add_status(boost::json::object& status) const = 0;
  /// Any other command. Errors: not_found when there is none of this name; commands() lists them.
  virtual Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request) = 0;
  virtual std::string_view commands() const = 0;

  /// Null: a role without plugins.
  virtual plugin_host::PluginHost* plugins() { return nullptr; }
  virtual plugin_host::Needs needs(const config::Config&) const { return {}; }
  /// See live::Follower::Setup::prepare: on another thread; what it returns runs on the strand.
  virtual Outcome<std::function<void()>> prepare(const live::Update& update) = 0;
};

struct RoleSetup {
  std::string name;
  config::StateDir state;
  std::filesystem::path config_folder;
  std::filesystem::path socket;
  /// Errors: what keeps it from starting.
  std::function<Outcome<std::unique_ptr<Role>>(boost::asio::io_context&, config::Snapshot)> make;
};

/// Runs until SIGTERM or SIGINT (a second one hurries). Returns the exit code: 0 after a signal; 2 when it cannot start
/// and starting again will not help; 1 when it may.
int run_role(const RoleSetup& setup);

}  // namespace gearbox::gear_facts
