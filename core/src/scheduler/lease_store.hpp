// lease_store.hpp: from the configuration to the store of leases that it names.
#pragma once

#include <boost/asio/io_context.hpp>

#include <string_view>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "plugin_host/plugin_host.hpp"
#include "scheduler/lease.hpp"

namespace gearbox::scheduler {

/// The name of the one that is no plugin: this host's central.
inline constexpr std::string_view kCentralStore = "central";

/// Plugins that the role cannot do without.
plugin_host::Needs needs_of(const config::Config& config);

/// `last`: in force until now, and kept when it is still the right one; may be null. Errors: bad_plugin.
Outcome<LeaseStore> lease_store(const config::Config& config, const plugin_host::Table& table,
                                const config::StateDir& state, boost::asio::io_context& io, const LeaseStore* last);

}  // namespace gearbox::scheduler
