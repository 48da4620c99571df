// plugin_host.hpp: finds, checks and loads plugins, and hands out instances.
//
// Two folders: the shipped one beside the executable (../lib/gearbox/plugins) and the drop folder of the configuration,
// which wins by name. Each file is copied to a private copy named by its checksum, that copy is checked in a child
// process
// (`broker plugins check COPY`), and that same copy is opened with Boost.DLL. Live reload (next) swaps what get_* hand
// out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/plugin/transport.hpp"

namespace gearbox::plugin_host {

/// One row of a plugin's options table.
struct OptionInfo {
  std::string key, type, fallback, unit, help;  // type: "integer", "number", "boolean", "text"
  double lowest = 0, highest = 0;               // of integer and number
};

struct PluginInfo {
  std::string name, kind, version, summary, checksum;
  std::filesystem::path file;  // where it was found
  std::string state;           // "loaded", "refused"
  std::string reason;          // when refused
  bool shipped = false;        // from the folder beside the executable
  std::vector<OptionInfo> options;
  std::uint64_t faults = 0;  // throws and invalid answers since it was loaded
};

struct HostPaths {
  std::filesystem::path shipped;  // may be missing
  std::filesystem::path dropped;  // may be missing
  std::filesystem::path copies;   // private copies; made when missing
  std::filesystem::path checker;  // the broker executable
};

/// Where this process's executable finds what belongs to the installation.
std::filesystem::path own_executable();
std::filesystem::path shipped_plugins();

/// Keeps its library open as long as the object lives, whatever happens to the host.
template <class T>
using Instance = std::shared_ptr<T>;

class PluginHost {
 public:
  /// Loads all that is there. A refused file is no error: it is listed with its reason and logged once.
  /// Errors: bad_plugin when the drop folder's owner or mode cannot be trusted; bad_config when [plugins.NAME] has an
  /// unknown option or a value of another type or out of range (one line for each); io_error for the folder of copies.
  static Outcome<std::unique_ptr<PluginHost>> open(const HostPaths& paths, const config::PluginsConfig& config);
  ~PluginHost();

  /// A new instance with the options of the configuration. Errors: bad_plugin (no such name or kind: says what there
  /// is; a make that failed or threw). Its calls never throw: a throw and an answer outside the contract come back as
  /// plugin_fault (corrupt_data from a codec's decode) and are counted.
  Outcome<Instance<plugin::Balancer>> balancer(std::string_view name) const;
  Outcome<Instance<plugin::Codec>> codec(std::string_view name) const;
  Outcome<Instance<plugin::Transport>> transport_for(std::string_view url) const;  // by scheme

  std::vector<PluginInfo> list() const;

 private:
  struct State;
  explicit PluginHost(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Names that are never looked at: hidden files, editors' and copiers' leftovers ("x.so~", ".x.so.swp", "x.so.part",
/// "4913"), all that does not end in .so.
bool is_plugin_file_name(std::string_view name);

/// The check that runs in the child: static look at the ELF file, then dlopen, descriptor, api, ABI tag, options, a
/// create and destroy, the kind's small conformance probe. Returns what the plugin says of itself. Errors: bad_plugin
/// with the reason.
Outcome<PluginInfo> check_in_this_process(const std::filesystem::path& file);
/// The same in a child under limits on time, memory and descriptors. A crash or a hang is a reason like any other.
Outcome<PluginInfo> check_in_child(const std::filesystem::path& file, const std::filesystem::path& checker);

}  // namespace gearbox::plugin_host
