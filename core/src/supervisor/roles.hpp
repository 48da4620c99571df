// roles.hpp: central and node: the roles that a supervisor keeps alive by itself.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "supervisor/children.hpp"
#include "supervisor/plugin_charges.hpp"
#include "supervisor/supervisor.hpp"

namespace gearbox::supervisor {

/// Starts them, asks them how they are, looks whether one hangs in a plugin, starts them again when they end. One
/// strand; must outlive what runs on `io`.
class Roles {
 public:
  /// `executable`: the broker. `setup` and `children` must outlive this.
  Roles(boost::asio::io_context& io, const SupervisorSetup& setup, std::string executable, Children& children);
  ~Roles();
  Roles(const Roles&) = delete;
  Roles& operator=(const Roles&) = delete;

  /// One line for people.
  void on_say(std::function<void(std::string)> say) { say_ = std::move(say); }
  /// A role cannot be started at all, for this reason.
  void on_give_up(std::function<void(const std::string&)> give_up) { give_up_ = std::move(give_up); }

  /// What is known of a role has changed.
  void on_change(std::function<void()> change) { change_ = std::move(change); }
  /// Has each wanted one answered since it was started or adopted?
  bool all_answered() const;
  /// Their readiness, in one line.
  std::string summary() const;

  /// Starts what the setup wants and what was not adopted.
  void begin();
  /// From now on nothing is started or asked.
  void stop();

  /// `ended` was one of ours: is a plugin to blame? Nothing for other children.
  PluginCharges::Verdict judge(const Ended& ended);
  /// It ended with exit code 2 and was never ready: starting it again would not help.
  bool refuses(const Ended& ended) const;
  /// Nothing for other children.
  void start_again(const Ended& ended, bool at_once);

  bool wants(std::string_view role) const;
  unsigned restarts(std::string_view role) const;  // 0 for others
  /// Those that roles which were killed have left.
  void remove_sockets() const;

 private:
  struct Role {
    std::string name;
    std::filesystem::path socket;
    bool wanted = false;
    bool was_ready = false;  // ever: then exit code 2 is no longer a reason to give up
    bool answered = false;   // in this life
    std::string shown;       // the readiness line shown last
    unsigned restarts = 0;
    milliseconds pause{0};
    std::unique_ptr<boost::asio::steady_timer> restart;
    std::unique_ptr<boost::asio::steady_timer> poll;
  };
  void add(std::string name, std::filesystem::path socket, bool wanted);
  const Role* find(std::string_view name) const;
  Role* find(std::string_view name);
  void begin(Role& role);
  void start(Role& role);
  void start_in(Role& role, milliseconds pause);
  milliseconds next_pause(Role& role) const;
  void tick();
  void look_for_hangs();
  static boost::asio::awaitable<void> watch(Roles* self, Role* role);

  boost::asio::io_context& io_;
  const SupervisorSetup& setup_;
  std::string executable_;
  Children& children_;
  PluginCharges charges_;
  std::vector<Role> roles_;
  boost::asio::steady_timer tick_;
  bool stopping_ = false;
  std::function<void(std::string)> say_;
  std::function<void(const std::string&)> give_up_;
  std::function<void()> change_;
};

}  // namespace gearbox::supervisor
