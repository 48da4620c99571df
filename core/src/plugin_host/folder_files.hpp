// folder_files.hpp: the plugin files of one folder as they come, change and go; which build of each is good.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin_host/loader.hpp"
#include "watch/settle.hpp"

namespace gearbox::plugin_host {

class FolderFiles {
 public:
  FolderFiles(std::filesystem::path folder, bool shipped) : folder_(std::move(folder)), shipped_(shipped) {}

  struct File {
    std::filesystem::path path;
    watch::Settle settle{milliseconds(1000), watch::kStill};  // a library that is not whole is noticed
    BuildPtr good;                  // the last one from this path that was good; stays when a bad file takes its place
    std::optional<PluginInfo> bad;  // why what lies there now does not serve
    Instant retry_at = Instant::max();  // of what may pass by itself
    milliseconds retry_pause{0};
  };
  using Load = std::function<Outcome<BuildPtr>(const std::filesystem::path& file, PluginInfo& told)>;

  /// Looks at the folder, loads what has settled, forgets what has gone. `first`: takes everything as it is now.
  /// Returns when to look again at what keeps still since too short a time. Errors: bad_plugin: the folder cannot be
  /// trusted or read; then nothing changes.
  Outcome<Instant> look(Instant now, bool first, const Load& load);
  /// Loads again what `wanted` says, whether it changed or not.
  void again(const std::function<bool(const File&)>& wanted, const Load& load);

  std::map<std::filesystem::path, File>& files() { return files_; }
  bool shipped() const { return shipped_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void take(File& file, const Load& load) const;
  std::filesystem::path folder_;
  bool shipped_;
  std::map<std::filesystem::path, File> files_;
};

}  // namespace gearbox::plugin_host
