// loader.hpp: from a file to an opened library that may serve: private copy, book of builds, manifest, signature, check
// in a child, options, a trial object.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "plugin_host/build_book.hpp"
#include "plugin_host/library.hpp"
#include "plugin_host/manifest.hpp"
#include "plugin_host/option_values.hpp"

namespace gearbox::plugin_host {

/// One build that may serve.
struct LoadedBuild {
  std::shared_ptr<Library> library;
  PluginInfo info;
  Given options;       // those of its manifest
  std::string scheme;  // of a transport
};
using BuildPtr = std::shared_ptr<const LoadedBuild>;

/// `over` before `under`, key by key.
Given merged(const Given& under, const Given& over);

/// One thread at a time.
class Loader {
 public:
  Loader(const HostPaths& paths, std::shared_ptr<CallRecord> record, std::shared_ptr<CallRules> rules)
      : paths_(paths), record_(std::move(record)), rules_(std::move(rules)) {}

  /// Ends a check under way and lets no other begin. Any thread.
  void interrupt() { stop_ = true; }

  /// At a start options that do not fit are a fault of the configuration, told by whoever reads that; later they are
  /// one of the file.
  void starting(bool now) { starting_ = now; }

  /// `told` gets what is known of the file, also when it is refused: state "refused" or "barred", and the reason.
  /// Errors: as told.
  Outcome<BuildPtr> load(const std::filesystem::path& file, const config::PluginsConfig& config, const BuildBook& book,
                         bool shipped, PluginInfo& told);
  /// A build that served before, from its private copy, with those of the options that it takes. `is_shipped`: it lies
  /// in the shipped folder now, and needs no signature. Errors: bad_plugin.
  Outcome<BuildPtr> reload(const Build& build, const config::PluginsConfig& config, bool is_shipped);

 private:
  enum class Options { must_fit, may_fit };
  Outcome<BuildPtr> finish(PrivateCopy copy, const Manifest& manifest, const config::PluginsConfig& config,
                           Options demand, PluginInfo& told);
  Outcome<PluginInfo> checked(const PrivateCopy& copy);
  Outcome<std::shared_ptr<Library>> library_of(PrivateCopy copy, const Manifest& manifest, PluginInfo& told);

  HostPaths paths_;
  std::shared_ptr<CallRecord> record_;
  std::shared_ptr<CallRules> rules_;
  bool starting_ = false;
  std::atomic<bool> stop_{false};
  /// What passed its check in this process, by checksum: the same bytes need no second one when they come back.
  std::map<std::string, PluginInfo> checked_;
  std::map<std::string, std::weak_ptr<Library>>
      open_;  // by checksum: one build is opened once, also when it comes back
};

}  // namespace gearbox::plugin_host
