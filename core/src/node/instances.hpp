// instances.hpp: the plugin objects that a node works with, made together from one table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "explain/trace.hpp"
#include "plugin_host/plugin_host.hpp"
#include "sinks/setup.hpp"

namespace gearbox::node {

/// Belongs to the node's strand once it is in use. An upload keeps the codecs it began with.
struct Instances {
  std::shared_ptr<plugin::Balancer> balancer;
  explain::ChooserPtr chooser;                   // which build the balancer is of
  std::shared_ptr<plugin::Transport> transport;  // for node.listen
  std::map<std::string, std::shared_ptr<plugin::Codec>, std::less<>> codecs;

  std::vector<sinks::SinkSetup> sinks;  // in the configuration's order

  // Which build and options each was made from: what has not changed is taken over, with what it keeps in memory.
  std::string balancer_name;
  std::uint64_t balancer_edition = 0, transport_edition = 0;
  std::map<std::string, std::uint64_t, std::less<>> codec_editions;
  std::vector<std::uint64_t> sink_editions;  // beside `sinks`
};

/// What a node with this configuration cannot do without.
plugin_host::Needs needs_of(const config::Config& config);

/// All that `config` asks for, of `table`; objects of the same edition are taken from `last` (may be null).
/// Errors: bad_plugin: a name that is not there, with the key that names it; what cannot be made.
Outcome<std::shared_ptr<const Instances>> make_instances(const config::Config& config, const plugin_host::Table& table,
                                                         const Instances* last);

}  // namespace gearbox::node
