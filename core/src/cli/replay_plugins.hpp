// replay_plugins.hpp: the very plugin libraries that a live broker would load, for a run of the simulator.
#pragma once

#include <filesystem>
#include <memory>

#include "config/config.hpp"
#include "gearbox/base/outcome.hpp"
#include "plugin_host/plugin_host.hpp"
#include "replay/experiment.hpp"

namespace gearbox::cli {

/// Holds the libraries, and private copies of them in a temporary folder, which goes with it.
class ReplayPlugins {
 public:
  /// The shipped plugins, and those of `config`'s drop folder, with the options of its [plugins] tables. Errors: as
  /// PluginHost::open(); io_error.
  static Outcome<std::unique_ptr<ReplayPlugins>> open(const config::PluginsConfig& config);
  ~ReplayPlugins();
  ReplayPlugins(const ReplayPlugins&) = delete;
  ReplayPlugins& operator=(const ReplayPlugins&) = delete;

  /// Valid as long as this object.
  replay::PluginMakers makers() const;
  /// Of the build behind a name; empty when there is none.
  std::string checksum_of(const std::string& kind, const std::string& name) const;

 private:
  ReplayPlugins() = default;
  std::filesystem::path folder_;
  std::unique_ptr<plugin_host::PluginHost> host_;
};

}  // namespace gearbox::cli
