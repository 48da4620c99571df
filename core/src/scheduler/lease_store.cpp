#include "scheduler/lease_store.hpp"

#include <utility>

#include "gearbox/base/boot.hpp"
#include "gearbox/base/text.hpp"
#include "scheduler/central_lease.hpp"
#include "scheduler/plugin_lease.hpp"

namespace gearbox::scheduler {

namespace {

/// The same for each life of this installation's scheduler within one boot, and nobody else's.
std::string home_of(const config::StateDir& state) {
  return escaped(own_boot_id(), 64) + ":" + escaped(state.root.string(), 190);
}

}  // namespace

plugin_host::Needs needs_of(const config::Config& config) {
  plugin_host::Needs needs{{"gear", config.gears.policy, "gears.policy"}};
  if (config.gears.coordination != kCentralStore) {
    needs.push_back({"coordination", config.gears.coordination, "gears.coordination"});
  }
  return needs;
}

Outcome<LeaseStore> lease_store(const config::Config& config, const plugin_host::Table& table,
                                const config::StateDir& state, boost::asio::io_context& io, const LeaseStore* last) {
  LeaseStore made;
  made.name = config.gears.coordination;
  made.asks_for = config.gears.lease;
  const bool same = last != nullptr && last->lease && last->name == made.name && last->asks_for == made.asks_for;
  if (made.name == kCentralStore) {
    if (same) return *last;
    made.lease = std::make_shared<CentralLease>(io.get_executor(), state, made.asks_for);
    return made;
  }
  if (table.lacks_barred("coordination", made.name)) return made;
  made.edition = table.edition("coordination", made.name);
  if (same && last->edition == made.edition) return *last;
  auto plugin = table.coordination(made.name);
  if (!plugin) return Error{plugin.error().code, "gears.coordination: " + plugin.error().detail};
  made.lease = std::make_shared<PluginLease>(std::move(plugin).value(), made.asks_for, home_of(state));
  return made;
}

}  // namespace gearbox::scheduler
