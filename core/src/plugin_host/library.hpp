// library.hpp: one opened plugin library and what its descriptor says. It outlives every object made from it.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/plugin/descriptor.hpp"
#include "gearbox/plugin/transport.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

class Library {
 public:
  /// Opens `file`, which runs the library's start-up code, and checks the descriptor. Errors: bad_plugin.
  static Outcome<std::shared_ptr<Library>> open(const std::filesystem::path& file);
  virtual ~Library() = default;

  const PluginInfo& info() const { return info_; }
  plugin::Kind kind() const { return descriptor_->kind; }
  /// Throws and answers outside the contract, counted by the guards.
  std::atomic<std::uint64_t>& faults() { return faults_; }

  /// Calls the plugin's make. Errors: bad_plugin (failed, threw or gave nothing).
  template <plugin::Kind kind>
  Outcome<std::unique_ptr<typename plugin::KindTraits<kind>::Class>> make(const plugin::Options& options) const;

 protected:
  Library(const plugin::Descriptor* descriptor, PluginInfo info) : descriptor_(descriptor), info_(std::move(info)) {}

 private:
  const plugin::Descriptor* descriptor_;  // lies in the library
  PluginInfo info_;
  std::atomic<std::uint64_t> faults_{0};
};

/// "balancer"; empty for a kind that this version has no header for.
std::string_view name_of(plugin::Kind kind);

/// The descriptor as values. Reads its strings with a bound. Errors: bad_plugin: magic, size, kind, api, ABI tag,
/// names, options.
Outcome<PluginInfo> read_descriptor(const plugin::Descriptor& descriptor);

}  // namespace gearbox::plugin_host
