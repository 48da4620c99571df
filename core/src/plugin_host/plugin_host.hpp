// plugin_host.hpp: finds, checks and loads plugins, follows the drop folder, and hands out instances.
//
// Two folders: the shipped one beside the executable (../lib/gearbox/plugins) and the drop folder of the configuration,
// which wins by name. Each file is copied to a private copy named by its checksum, that copy is checked in a child
// process (`broker plugins check COPY`), and that same copy is opened with Boost.DLL.
//
// What is in force at one moment is a Table, which never changes. look() loads what is new and says which table would
// follow; its role makes from that all it needs, and only then puts it in force with use().
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/plugin/coordination.hpp"
#include "gearbox/plugin/gear.hpp"
#include "gearbox/plugin/sink.hpp"
#include "gearbox/plugin/transport.hpp"

namespace gearbox::plugin_host {

class Library;
struct LoadedBuild;

/// One row of a plugin's options table.
struct OptionInfo {
  std::string key, type, fallback, unit, help;  // type: "integer", "number", "boolean", "text"
  double lowest = 0, highest = 0;               // of integer and number
};

struct PluginInfo {
  std::string name, kind, version, summary, checksum;
  std::filesystem::path file;  // where it was found
  std::string state;           // "loaded", "refused", "barred", "shadowed" (shipped, and a dropped one goes before it),
                               // "waiting" (for the gate), "retiring" (out of force, its library not closed yet)
  std::string reason;          // why it is refused, barred or waiting; of a loaded one: why it is still there
  bool shipped = false;        // from the folder beside the executable
  bool by_options = false;     // of refused: the options in force do not fit it; with others it may serve
  bool may_pass = false;       // of refused: for want of something that may be there later (disk, processes)
  std::vector<OptionInfo> options;
  std::int64_t since_unix_ms = 0;  // in force since; for people
  std::uint64_t calls = 0;
  std::uint64_t faults = 0;  // throws, overruns and invalid answers since it was loaded
  microseconds p99{0};       // of its calls
};

struct HostPaths {
  std::filesystem::path shipped;  // may be missing
  std::filesystem::path dropped;  // may be missing
  std::filesystem::path copies;   // private copies; made when missing
  std::filesystem::path checker;  // the broker executable
  std::filesystem::path calling;  // the "now calling" record of this process; empty: none is kept
  std::filesystem::path state{};  // of the installation: its node's recording is what the gate replays; empty: no gate
};

/// Where this process's executable finds what belongs to the installation.
std::filesystem::path own_executable();
std::filesystem::path shipped_plugins();

/// Keeps its library open as long as the object lives, whatever happens to the host.
template <class T>
using Instance = std::shared_ptr<T>;

/// What a role cannot do without, and which key of the configuration says so. A build that is needed stays in force
/// when its file is deleted.
struct Need {
  std::string kind;
  std::string name;  // of a transport: the URL whose scheme it serves
  std::string by;    // "node.balancer"
};
using Needs = std::vector<Need>;

/// What is in force at one moment. Never changes; any thread.
class Table {
 public:
  /// A new instance with the options of its moment. Errors: bad_plugin (no such name or kind: says what there is; a
  /// make that failed or threw). Its calls never throw: a throw and an answer outside the contract come back as
  /// plugin_fault (corrupt_data from a codec's decode) and are counted.
  Outcome<Instance<plugin::Balancer>> balancer(std::string_view name) const;
  Outcome<Instance<plugin::GearPolicy>> gear_policy(std::string_view name) const;
  Outcome<Instance<plugin::Codec>> codec(std::string_view name) const;
  Outcome<Instance<plugin::Coordination>> coordination(std::string_view name) const;
  Outcome<Instance<plugin::Transport>> transport_for(std::string_view url) const;  // by scheme
  /// With `own` options, which go before the plugin's own table, key by key. Errors: bad_config too: they do not fit.
  Outcome<Instance<plugin::Sink>> sink(std::string_view name,
                                       const std::map<std::string, config::OptionValue>& own) const;
  /// Nothing serves under the name because its build is barred.
  bool lacks_barred(std::string_view kind, std::string_view name) const;

  /// The balancer's own name, or, when that one is barred and nothing could be put back, that of the shipped one which
  /// stands in for it: a role must come up after a plugin has killed it.
  /// A name that is nobody's stays, and is a fault.
  std::string balancer_or_stand_in(std::string_view name) const;

  /// Another number when the build or the options behind the name are others; 0 when there is none.
  std::uint64_t edition(std::string_view kind, std::string_view name) const;
  std::uint64_t transport_edition(std::string_view url) const;
  /// What is known of the build behind the name; nullptr when there is none. Lives as long as the table.
  const PluginInfo* info(std::string_view kind, std::string_view name) const;
  std::vector<std::string> names(std::string_view kind) const;

 private:
  friend class PluginHost;
  using Key = std::pair<std::string, std::string>;  // kind, name
  struct Entry {
    std::shared_ptr<const LoadedBuild> build;
    std::shared_ptr<Library> library;  // the build's
    PluginInfo info;
    std::map<std::string, config::OptionValue> options;  // as given: manifest, then configuration
    std::string scheme;                                  // of a transport
    std::uint64_t edition = 0;
  };
  Outcome<const Entry*> find(std::string_view kind, std::string_view name) const;
  const Entry* serving(std::string_view url) const;
  template <plugin::Kind kind>
  auto instance(const Entry& entry) const;
  std::string refusals() const;

  std::map<Key, Entry> entries_;
  std::vector<PluginInfo> others_;  // refused, barred and shadowed files
  std::set<Key> barred_;            // plugins of which some build is barred
  Needs needs_;                     // of the moment
  struct Rules {
    milliseconds call_budget{0}, hang{0};
    std::uint32_t fault_limit = 0;
    bool operator==(const Rules&) const = default;
  } rules_;
};
using TablePtr = std::shared_ptr<const Table>;

class PluginHost {
 public:
  /// Loads all that is there. A refused file is no error: it is listed with its reason and logged once.
  /// Errors: bad_plugin when the drop folder's owner or mode cannot be trusted; bad_config when [plugins.NAME] has an
  /// unknown option or a value of another type or out of range (one line for each); io_error for the folder of copies.
  static Outcome<std::unique_ptr<PluginHost>> open(const HostPaths& paths, const config::PluginsConfig& config,
                                                   const Needs& needs = {});
  ~PluginHost();

  /// What is in force. Any thread.
  TablePtr table() const;
  Outcome<Instance<plugin::Balancer>> balancer(std::string_view name) const { return table()->balancer(name); }
  Outcome<Instance<plugin::Codec>> codec(std::string_view name) const { return table()->codec(name); }
  Outcome<Instance<plugin::Transport>> transport_for(std::string_view url) const { return table()->transport_for(url); }

  /// For people; reads /proc/self/maps to see which libraries are not closed yet. Any thread.
  std::vector<PluginInfo> list() const;

  struct Look {
    TablePtr table;                       // the same as table() when nothing changes
    Instant look_again = Instant::max();  // a file keeps still since too short a time: look again then
  };
  /// Looks at both folders and the book of builds, and loads what is new; may take as long as a check. The table is
  /// not in force before use(). One thread at a time. `is_new`: `config` is not in force yet, and is judged; of one
  /// that is in force, a plugin simply does not get the options that it has not. With plugins.gate a build that is not
  /// judged yet is left out, and a replay of it begun; its end is told through on_trouble(). Errors: bad_config: the
  /// options do not fit `config`'s plugins, or the gate has not let through what only `config` changes. Then nothing
  /// changes.
  Outcome<Look> look(const config::PluginsConfig& config, const Needs& needs, bool is_new = true);
  /// Ends a check and a replay under way, and lets no other begin: the host is about to be closed. Any thread.
  void interrupt();
  /// Puts it in force and logs what is new, one line each. Same thread as look().
  void use(TablePtr table);

  /// Which folders tell of something new.
  std::vector<std::filesystem::path> folders() const;
  /// Called from inside a plugin's call when its build has failed too often, and from the gate's thread when a replay
  /// is over; must not block. look() deals with it.
  void on_trouble(std::function<void()> trouble);

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
/// `stop`: set by another thread to end it early (may be null). Errors: bad_plugin; io_error: it could not be checked,
/// which says nothing about the plugin.
Outcome<PluginInfo> check_in_child(const std::filesystem::path& file, const std::filesystem::path& checker,
                                   const std::atomic<bool>* stop = nullptr);

}  // namespace gearbox::plugin_host
