// library.hpp: one opened plugin library and what its descriptor says. It outlives every object made from it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "gearbox/plugin/balancer.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/plugin/coordination.hpp"
#include "gearbox/plugin/descriptor.hpp"
#include "gearbox/plugin/gear.hpp"
#include "gearbox/plugin/sink.hpp"
#include "gearbox/plugin/transport.hpp"
#include "plugin_host/call_record.hpp"
#include "plugin_host/health.hpp"
#include "plugin_host/plugin_host.hpp"
#include "plugin_host/private_copy.hpp"

namespace gearbox::plugin_host {

class Library {
 public:
  /// What a library runs under. The default is for whoever only looks at one.
  struct Setting {
    std::shared_ptr<CallRecord> record = CallRecord::unrecorded();
    std::shared_ptr<CallRules> rules = std::make_shared<CallRules>();
    std::optional<PrivateCopy> copy;  // `file` is its path; kept as long as the library is mapped
    PluginInfo expected;              // what its check said: for the record while its start-up code runs
  };
  /// Opens `file`, which runs the library's start-up code, and checks the descriptor. Errors: bad_plugin.
  static Outcome<std::shared_ptr<Library>> open(const std::filesystem::path& file, Setting setting);
  virtual ~Library() = default;

  const PluginInfo& info() const { return info_; }
  plugin::Kind kind() const { return descriptor_->kind; }
  Health& health() { return health_; }
  const Health& health() const { return health_; }
  CallRecord& record() const { return *setting_.record; }
  const CallRecord::Label& label() const { return label_; }
  const CallRules& rules() const { return *setting_.rules; }
  std::string checksum() const { return setting_.copy ? setting_.copy->checksum() : std::string(); }

  /// Calls the plugin's make. Errors: bad_plugin (failed, threw or gave nothing).
  template <plugin::Kind kind>
  Outcome<std::unique_ptr<typename plugin::KindTraits<kind>::Class>> make(const plugin::Options& options) const;

 protected:
  Library(const plugin::Descriptor* descriptor, PluginInfo info, Setting setting);

 private:
  const plugin::Descriptor* descriptor_;  // lies in the library
  PluginInfo info_;
  Setting setting_;
  CallRecord::Label label_;
  Health health_;
};

/// "balancer"; empty for a kind that this version has no header for.
std::string_view name_of(plugin::Kind kind);
/// The version of the kind's interface that this broker was built with; 0 for an unknown kind.
std::uint32_t api_of(plugin::Kind kind);
std::uint32_t api_of(std::string_view kind);

/// The descriptor as values. Reads its strings with a bound. Errors: bad_plugin: magic, size, kind, api, ABI tag,
/// names, options.
Outcome<PluginInfo> read_descriptor(const plugin::Descriptor& descriptor);

}  // namespace gearbox::plugin_host
