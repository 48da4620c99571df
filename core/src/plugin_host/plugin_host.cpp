#include "plugin_host/plugin_host.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/check_child.hpp"
#include "plugin_host/drop_folder.hpp"
#include "plugin_host/guards.hpp"
#include "plugin_host/library.hpp"
#include "plugin_host/option_values.hpp"
#include "plugin_host/private_copy.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

/// One plugin in use. A swap (live reload) replaces the whole entry; instances made from the old one keep its library.
struct Loaded {
  PluginInfo info;
  std::shared_ptr<Library> library;
  std::shared_ptr<PrivateCopy> copy;
};

/// Copies, checks in a child, opens. Errors: bad_plugin; io_error and no_space when the copy cannot be made.
Outcome<Loaded> load_one(const fs::path& file, const HostPaths& paths, PluginInfo& told) {
  BOOST_OUTCOME_TRY(PrivateCopy made, PrivateCopy::make(file, paths.copies));
  auto copy = std::make_shared<PrivateCopy>(std::move(made));
  told.checksum = copy->checksum();
  BOOST_OUTCOME_TRY(const PluginInfo checked, check_in_child(copy->path(), paths.checker));
  told.name = checked.name;
  told.kind = checked.kind;
  told.version = checked.version;
  told.summary = checked.summary;
  BOOST_OUTCOME_TRY(auto library, Library::open(copy->path()));
  Loaded loaded{library->info(), std::move(library), std::move(copy)};
  loaded.info.checksum = told.checksum;
  return loaded;
}

}  // namespace

struct PluginHost::State {
  std::map<std::pair<std::string, std::string>, Loaded> current;  // (kind, name)
  std::vector<PluginInfo> refused;
  config::PluginsConfig config;

  void load_folder(const std::vector<fs::path>& files, const HostPaths& paths, bool shipped);
  Outcome<void> check_options() const;
  Outcome<const Loaded*> find(std::string_view kind, std::string_view name) const;
  template <plugin::Kind kind>
  auto instance(const Loaded& loaded) const;
};

void PluginHost::State::load_folder(const std::vector<fs::path>& files, const HostPaths& paths, bool shipped) {
  std::map<std::pair<std::string, std::string>, fs::path>
      seen;  // in this folder: a twin is a mistake, not a replacement
  for (const fs::path& file : files) {
    PluginInfo told;
    Outcome<Loaded> loaded = load_one(file, paths, told);
    if (loaded) {
      const std::pair key(loaded.value().info.kind, loaded.value().info.name);
      const auto twin = seen.find(key);
      if (twin != seen.end()) {
        loaded = Error{Errc::bad_plugin,
                       twin->second.filename().string() + " is a " + key.first + " called '" + key.second + "' too"};
      } else {
        seen.emplace(key, file);
        loaded.value().info.file = file;
        loaded.value().info.shipped = shipped;
        loaded.value().info.state = "loaded";
        spdlog::debug("plugin loaded kind={} name={} version={} file={}", key.first, key.second,
                      loaded.value().info.version, escaped(file.string()));
        current.insert_or_assign(key, std::move(loaded).value());
        continue;
      }
    }
    told.file = file;
    told.shipped = shipped;
    told.state = "refused";
    told.reason = loaded.error().detail;
    spdlog::warn("plugin refused file={} reason=\"{}\"", escaped(file.string()), escaped(told.reason, 512));
    refused.push_back(std::move(told));
  }
}

/// [plugins.NAME] against the options tables of what is loaded.
Outcome<void> PluginHost::State::check_options() const {
  toml::Faults faults;
  std::vector<std::string> names;
  for (const auto& [key, loaded] : current) names.push_back(key.second);
  for (const auto& [name, given] : config.options) {
    bool known = false;
    for (const auto& [key, loaded] : current) {
      if (key.second != name) continue;
      known = true;
      const auto values = OptionValues::make(loaded.info.options, given);
      if (!values) faults.add_told(values.error(), "gearbox.toml: plugins." + name + ".");
    }
    if (known) continue;
    const std::string_view near = nearest(name, names);
    const std::string hint = near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?";
    if (refused.empty()) {
      faults.add("gearbox.toml", 0, 0, "plugins." + name, "no plugin is called so" + hint);
    } else {
      // It may be the table of a refused file, which gave no name: its refusal has been logged and must not stop the
      // broker.
      spdlog::warn("options for a plugin that is not loaded name={}{}", escaped(name, 64), hint);
    }
  }
  if (!faults.empty()) return faults.error();
  return done();
}

Outcome<const Loaded*> PluginHost::State::find(std::string_view kind, std::string_view name) const {
  const auto found = current.find(std::pair(std::string(kind), std::string(name)));
  if (found != current.end()) return &found->second;
  std::string there;
  for (const auto& [key, loaded] : current) {
    if (key.first == kind) there += (there.empty() ? "" : ", ") + key.second;
  }
  std::string detail = "no " + std::string(kind) + " is called '" + escaped(name, kMaxNameBytes) + "'; there is " +
                       (there.empty() ? "none" : there);
  for (const PluginInfo& info : refused)
    detail += "; " + info.file.filename().string() + " was refused: " + info.reason;
  return Error{Errc::bad_plugin, std::move(detail)};
}

template <plugin::Kind kind>
auto PluginHost::State::instance(const Loaded& loaded) const {
  using Class = typename plugin::KindTraits<kind>::Class;
  const auto given = config.options.find(loaded.info.name);
  const auto make = [&]() -> Outcome<Instance<Class>> {
    BOOST_OUTCOME_TRY(const OptionValues options,
                      OptionValues::make(loaded.info.options, given == config.options.end() ? Given() : given->second));
    BOOST_OUTCOME_TRY(auto made, loaded.library->make<kind>(options));
    return guarded(loaded.library, std::move(made));
  };
  return make();
}

PluginHost::PluginHost(std::unique_ptr<State> state) : state_(std::move(state)) {}
PluginHost::~PluginHost() = default;

Outcome<std::unique_ptr<PluginHost>> PluginHost::open(const HostPaths& paths, const config::PluginsConfig& config) {
  BOOST_OUTCOME_TRY(const auto shipped, plugin_files(paths.shipped, false));
  BOOST_OUTCOME_TRY(const auto dropped, plugin_files(paths.dropped, true));
  BOOST_OUTCOME_TRY(open_copies_folder(paths.copies));
  auto state = std::make_unique<State>();
  state->config = config;
  state->load_folder(shipped, paths, true);
  state->load_folder(dropped, paths, false);  // later: it wins by name
  remove_unused_copies(paths.copies);
  BOOST_OUTCOME_TRY(state->check_options());
  return std::unique_ptr<PluginHost>(new PluginHost(std::move(state)));
}

Outcome<Instance<plugin::Balancer>> PluginHost::balancer(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Loaded* loaded, state_->find("balancer", name));
  return state_->instance<plugin::Kind::balancer>(*loaded);
}

Outcome<Instance<plugin::Codec>> PluginHost::codec(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Loaded* loaded, state_->find("codec", name));
  return state_->instance<plugin::Kind::codec>(*loaded);
}

Outcome<Instance<plugin::Transport>> PluginHost::transport_for(std::string_view url) const {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos)
    return Error{Errc::bad_input, "'" + escaped(url, 128) + "' is no URL (tcp://HOST:PORT)"};
  const std::string_view scheme = url.substr(0, mark);
  std::string schemes;
  for (const auto& [key, loaded] : state_->current) {
    if (key.first != "transport") continue;
    BOOST_OUTCOME_TRY(auto transport, state_->instance<plugin::Kind::transport>(loaded));
    if (transport->scheme() == scheme) return transport;
    schemes += (schemes.empty() ? "" : ", ") + std::string(transport->scheme());
  }
  std::string detail =
      "no transport serves '" + escaped(scheme, 32) + "://'; there is " + (schemes.empty() ? "none" : schemes);
  for (const PluginInfo& info : state_->refused)
    detail += "; " + info.file.filename().string() + " was refused: " + info.reason;
  return Error{Errc::bad_plugin, std::move(detail)};
}

std::vector<PluginInfo> PluginHost::list() const {
  std::vector<PluginInfo> all;
  for (const auto& [key, loaded] : state_->current) {
    all.push_back(loaded.info);
    all.back().faults = loaded.library->faults();
  }
  all.insert(all.end(), state_->refused.begin(), state_->refused.end());
  return all;
}

}  // namespace gearbox::plugin_host
