#include "scheduler/run_scheduler.hpp"

#include <memory>
#include <utility>

#include "gear_facts/places.hpp"
#include "scheduler/lease_store.hpp"
#include "scheduler/scheduler.hpp"

namespace gearbox::scheduler {

namespace {

Outcome<std::unique_ptr<gear_facts::Role>> make(boost::asio::io_context& io, const config::StateDir& state,
                                                const config::Snapshot& config) {
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config->plugins.folder;
  paths.copies = state.plugin_copies();
  paths.checker = plugin_host::own_executable();
  paths.calling = state.calling_record("scheduler");
  paths.state = state.root;
  const plugin_host::Needs needs = needs_of(*config);
  Scheduler::Setup setup;
  setup.io = &io;
  setup.state = state;
  setup.config = config;
  BOOST_OUTCOME_TRY(setup.plugins, plugin_host::PluginHost::open(paths, config->plugins, needs));
  BOOST_OUTCOME_TRY(setup.policy, policy_of(*config, *setup.plugins->table(), nullptr));
  BOOST_OUTCOME_TRY(setup.store, lease_store(*config, *setup.plugins->table(), state, io, nullptr));
  return std::unique_ptr<gear_facts::Role>(std::make_unique<Scheduler>(std::move(setup)));
}

}  // namespace

int run_scheduler(const config::StateDir& state, const std::filesystem::path& config_folder) {
  gear_facts::RoleSetup setup;
  setup.name = "scheduler";
  setup.state = state;
  setup.config_folder = config_folder;
  setup.socket = gear_facts::scheduler_socket(state);
  setup.make = [&state](boost::asio::io_context& io, const config::Snapshot& config) {
    return make(io, state, config);
  };
  return gear_facts::run_role(setup);
}

}  // namespace gearbox::scheduler
