#include "cli/replay_plugins.hpp"

#include <cstdlib>
#include <string>

namespace gearbox::cli {

namespace fs = std::filesystem;

Outcome<std::unique_ptr<ReplayPlugins>> ReplayPlugins::open(const config::PluginsConfig& config) {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "gearbox-replay-XXXXXX").string();
  if (failed || ::mkdtemp(pattern.data()) == nullptr)
    return Error{Errc::io_error, "no temporary folder can be made for the plugins' copies"};
  std::unique_ptr<ReplayPlugins> made(new ReplayPlugins());
  made->folder_ = pattern;
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.folder;
  paths.copies = made->folder_ / "copies";
  paths.checker = plugin_host::own_executable();
  config::PluginsConfig its = config;
  // How long a call takes on this host must not change what a run gives.
  its.call_budget = milliseconds(3'600'000);
  its.fault_limit = 1'000'000;
  BOOST_OUTCOME_TRY(made->host_, plugin_host::PluginHost::open(paths, its));
  return made;
}

ReplayPlugins::~ReplayPlugins() {
  host_.reset();
  std::error_code ignored;  // what is left lies in the folder for temporary files
  fs::remove_all(folder_, ignored);
}

replay::PluginMakers ReplayPlugins::makers() const {
  replay::PluginMakers makers;
  makers.policy = [table = host_->table()](const std::string& name) { return table->gear_policy(name); };
  makers.balancer = [table = host_->table()](const std::string& name) { return table->balancer(name); };
  return makers;
}

std::string ReplayPlugins::checksum_of(const std::string& kind, const std::string& name) const {
  const plugin_host::TablePtr table = host_->table();
  const plugin_host::PluginInfo* info = table->info(kind, name);
  return info == nullptr ? std::string() : info->checksum;
}

}  // namespace gearbox::cli
