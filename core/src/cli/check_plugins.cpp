#include "cli/check_plugins.hpp"

#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "config/central_places.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::cli {

namespace fs = std::filesystem;

namespace {

/// Removed with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "gearbox-check-XXXXXX").string();
    if (!error && ::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code left;  // what cannot be removed is /tmp's to clean
    if (!path_.empty()) fs::remove_all(path_, left);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

Outcome<void> check_plugins(const config::Config& config) {
  const ScratchFolder scratch;
  if (scratch.path().empty()) return Error{Errc::io_error, "no folder for the plugins' copies can be made"};
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.plugins.folder;
  paths.copies = scratch.path() / "plugins";
  paths.checker = plugin_host::own_executable();
  BOOST_OUTCOME_TRY(const auto host, plugin_host::PluginHost::open(paths, config.plugins));
  toml::Faults faults;
  const std::string file = (config.folder / "gearbox.toml").string();
  const auto told = [&](const std::string& key, const auto& made) {
    if (!made) faults.add(file, 0, 0, key, made.error().detail);
  };
  if (config.central.enabled) {
    told("central.balancer", host->balancer(config.central.balancer));
    told("central.listen", host->transport_for(config.central.listen));
  }
  if (config.node.enabled) {
    told("node.balancer", host->balancer(config.node.balancer));
    told("node.listen", host->transport_for(config.node.listen));
    for (const config::SinkConfig& sink : config.node.sinks) {
      told("node.sinks[" + sink.name + "]", host->table()->sink(sink.plugin, sink.options));
    }
    for (const config::CentralPlace& place : config::central_places(config.node)) {
      if (!place.url.empty()) told("node.central", host->transport_for(place.url));
    }
  }
  if (!faults.empty()) return faults.error();
  return done();
}

}  // namespace gearbox::cli
