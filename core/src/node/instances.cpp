#include "node/instances.hpp"

#include <spdlog/spdlog.h>

#include "config/central_places.hpp"

namespace gearbox::node {

namespace {

Error with_key(const std::string& key, const Error& error) {
  return Error{error.code, key + ": " + error.detail};
}

/// Those of another build, or with other options, are made anew.
Outcome<void> make_sinks(const config::Config& config, const plugin_host::Table& table, const Instances* last,
                         Instances& made) {
  for (const config::SinkConfig& wanted : config.node.sinks) {
    sinks::SinkSetup setup;
    setup.config = wanted;
    const std::uint64_t edition = table.edition("sink", wanted.plugin);
    for (std::size_t i = 0; last != nullptr && i < last->sinks.size(); ++i) {
      const config::SinkConfig& before = last->sinks[i].config;
      const bool same = before.name == wanted.name && before.plugin == wanted.plugin &&
                        before.options == wanted.options && last->sink_editions[i] == edition;
      if (same) setup.sink = last->sinks[i].sink;
    }
    if (table.lacks_barred("sink", wanted.plugin)) {
      // What it was barred for must not keep the node from coming up: its events wait.
      setup.missing = "plugin sink '" + wanted.plugin + "' is barred; see `broker plugins`";
    } else if (!setup.sink) {
      auto sink = table.sink(wanted.plugin, wanted.options);
      if (!sink) return with_key("node.sinks[" + wanted.name + "]", sink.error());
      setup.sink = std::move(sink).value();
    }
    made.sinks.push_back(std::move(setup));
    made.sink_editions.push_back(edition);
  }
  return done();
}

}  // namespace

plugin_host::Needs needs_of(const config::Config& config) {
  plugin_host::Needs needs;
  needs.push_back({"balancer", config.node.balancer, "node.balancer"});
  needs.push_back({"transport", config.node.listen, "node.listen"});
  for (const config::SinkConfig& sink : config.node.sinks) {
    needs.push_back({"sink", sink.plugin, "node.sinks[" + sink.name + "].plugin"});
  }
  for (const config::CentralPlace& place : config::central_places(config.node)) {
    if (!place.url.empty()) needs.push_back({"transport", place.url, "node.central"});
  }
  return needs;
}

Outcome<std::shared_ptr<const Instances>> make_instances(const config::Config& config, const plugin_host::Table& table,
                                                         const Instances* last) {
  auto made = std::make_shared<Instances>();
  const std::string& wanted = config.node.balancer;
  made->balancer_name = table.balancer_or_stand_in(wanted);
  if (made->balancer_name != wanted && (last == nullptr || last->balancer_name != made->balancer_name)) {
    spdlog::warn("node.balancer '{}' is barred: '{}' stands in for it", wanted, made->balancer_name);
  }
  made->balancer_edition = table.edition("balancer", made->balancer_name);
  if (last != nullptr && last->balancer_name == made->balancer_name &&
      last->balancer_edition == made->balancer_edition) {
    made->balancer = last->balancer;
    made->chooser = last->chooser;
  } else {
    auto balancer = table.balancer(made->balancer_name);
    if (!balancer) return with_key("node.balancer", balancer.error());
    made->balancer = std::move(balancer).value();
    const plugin_host::PluginInfo* const build = table.info("balancer", made->balancer_name);
    made->chooser = std::make_shared<const explain::Chooser>(
        explain::Chooser{made->balancer_name, build->version, build->checksum});
  }
  made->transport_edition = table.transport_edition(config.node.listen);
  if (last != nullptr && last->transport_edition == made->transport_edition) {
    made->transport = last->transport;
  } else {
    auto transport = table.transport_for(config.node.listen);
    if (!transport) return with_key("node.listen", transport.error());
    made->transport = std::move(transport).value();
  }
  for (const std::string& name : table.names("codec")) {
    const std::uint64_t edition = table.edition("codec", name);
    made->codec_editions.emplace(name, edition);
    if (last != nullptr) {
      const auto before = last->codec_editions.find(name);
      if (before != last->codec_editions.end() && before->second == edition) {
        made->codecs.emplace(name, last->codecs.find(name)->second);
        continue;
      }
    }
    auto codec = table.codec(name);
    if (!codec) return with_key("codec " + name, codec.error());
    made->codecs.emplace(name, std::move(codec).value());
  }
  BOOST_OUTCOME_TRY(make_sinks(config, table, last, *made));
  return std::shared_ptr<const Instances>(std::move(made));
}

}  // namespace gearbox::node
