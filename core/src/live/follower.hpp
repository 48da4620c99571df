// follower.hpp: a running role follows its configuration folder and its plugins: one thread looks, reads and makes, and
// the role's strand only swaps pointers.
//
// Whole or not at all: a new state (configuration, table of plugins) is read, checked, compared with the one in force,
// and everything that may fail is made from it (`prepare`) before anything is touched. Then it is put in force in one
// go on the strand.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <boost/json/object.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "plugin_host/plugin_host.hpp"
#include "watch/watcher.hpp"

namespace gearbox::live {

/// What is to be in force next.
struct Update {
  config::Snapshot config;
  plugin_host::TablePtr plugins;
};

class Follower {
 public:
  struct Setup {
    std::string role;                        // "node": for logs
    std::vector<std::string_view> sections;  // whose settings concern this role: the others' it does not log
    boost::asio::any_io_executor strand;
    config::Snapshot config;                     // in force now
    plugin_host::PluginHost* plugins = nullptr;  // outlives this; only this thread looks at it from here on; may be
                                                 // null: a role without plugins, whose updates have no table
    std::function<plugin_host::Needs(const config::Config&)> needs;
    /// On the follower's thread: makes what the role needs of `update`. What it returns is run on the strand and cannot
    /// fail. Errors refuse the update: all of it.
    std::function<Outcome<std::function<void()>>(const Update& update)> prepare;
    watch::Watcher::Options watching{};
  };
  /// Errors: no_space.
  static Outcome<std::unique_ptr<Follower>> start(Setup setup);
  /// Ends the thread; an update that is being put in force is waited for no longer.
  ~Follower();

  struct Standing {
    std::int64_t since_unix_ms = 0;  // when the configuration in force was taken over
    std::string error;               // why the files as they are now are not in force; empty when they are
    std::uint64_t reloads = 0;       // configurations taken over since the start
    void add_to(boost::json::object& facts) const;
  };
  /// Any thread.
  Standing standing() const;

  /// Look now. Any thread.
  void hurry();

 private:
  struct State;
  explicit Follower(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::live
