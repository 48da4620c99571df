#include "plugin_host/loader.hpp"

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/check_child.hpp"
#include "plugin_host/guards.hpp"
#include "plugin_host/manifest.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

Given merged(const Given& under, const Given& over) {
  Given both = over;
  both.insert(under.begin(), under.end());
  return both;
}

namespace {

/// One object with the user's own options, made and destroyed: what cannot be made must not be put in force.
Outcome<std::string> try_out(const std::shared_ptr<Library>& library, const OptionValues& options) {
  switch (library->kind()) {
    case plugin::Kind::balancer: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::balancer>(options));
      guarded(library, std::move(made));
      return std::string();
    }
    case plugin::Kind::codec: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::codec>(options));
      guarded(library, std::move(made));
      return std::string();
    }
    case plugin::Kind::sink: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::sink>(options));
      guarded(library, std::move(made));
      return std::string();
    }
    case plugin::Kind::gear: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::gear>(options));
      guarded(library, std::move(made));
      return std::string();
    }
    case plugin::Kind::coordination: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::coordination>(options));
      guarded(library, std::move(made));
      return std::string();
    }
    case plugin::Kind::transport: {
      BOOST_OUTCOME_TRY(auto made, library->make<plugin::Kind::transport>(options));
      return std::string(guarded(library, std::move(made))->scheme());
    }
    default:
      return Error{Errc::bad_plugin, "is of a kind that is unknown here"};
  }
}

/// The part of the manifest that needs the kind, which only the library tells.
Outcome<void> check_numbers(const Manifest& manifest, const std::string& kind) {
  Manifest numbers = manifest;
  numbers.sha256.reset();
  return check_manifest(numbers, ByteView(), kind, api_of(kind));
}

}  // namespace

Outcome<PluginInfo> Loader::checked(const PrivateCopy& copy) {
  constexpr std::size_t kMostKept = 64;
  if (const auto found = checked_.find(copy.checksum()); found != checked_.end()) return found->second;
  BOOST_OUTCOME_TRY(PluginInfo info, check_in_child(copy.path(), paths_.checker, &stop_));
  if (checked_.size() >= kMostKept) checked_.clear();
  checked_.emplace(copy.checksum(), info);
  return info;
}

Outcome<std::shared_ptr<Library>> Loader::library_of(PrivateCopy copy, const Manifest& manifest, PluginInfo& told) {
  std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
  if (auto there = open_[copy.checksum()].lock()) {
    BOOST_OUTCOME_TRY(check_numbers(manifest, there->info().kind));
    there->health().forgive();  // whoever comes back begins anew
    return there;
  }
  BOOST_OUTCOME_TRY(PluginInfo info, checked(copy));
  told.name = info.name;
  told.kind = info.kind;
  told.version = info.version;
  told.summary = info.summary;
  BOOST_OUTCOME_TRY(check_numbers(manifest, info.kind));
  const std::string checksum = copy.checksum();
  const fs::path file = copy.path();
  Library::Setting setting;
  setting.record = record_;
  setting.rules = rules_;
  setting.copy.emplace(std::move(copy));
  setting.expected = std::move(info);
  BOOST_OUTCOME_TRY(auto library, Library::open(file, std::move(setting)));
  open_[checksum] = library;
  return library;
}

Outcome<BuildPtr> Loader::finish(PrivateCopy copy, const Manifest& manifest, const config::PluginsConfig& config,
                                 Options demand, PluginInfo& told) {
  auto build = std::make_shared<LoadedBuild>();
  BOOST_OUTCOME_TRY(build->library, library_of(std::move(copy), manifest, told));
  build->info = build->library->info();
  told.name = build->info.name;
  told.kind = build->info.kind;
  told.version = build->info.version;
  told.summary = build->info.summary;
  build->options = manifest.options;
  const auto given = config.options.find(build->info.name);
  const Given wanted = merged(build->options, given == config.options.end() ? Given() : given->second);
  auto options = OptionValues::make(build->info.options, wanted);
  if (const auto own = OptionValues::make(build->info.options, build->options); !own) {
    return Error{Errc::bad_plugin, "the options in its manifest do not fit: " + own.error().detail};
  }
  if (!options && (starting_ || demand == Options::may_fit)) {
    std::vector<std::string> left_out;
    options = OptionValues::make(build->info.options, OptionValues::fitting(build->info.options, wanted, left_out));
  }
  if (!options) {
    told.by_options = true;
    return Error{Errc::bad_plugin, "its options do not fit: " + options.error().detail};
  }
  BOOST_OUTCOME_TRY(build->scheme, try_out(build->library, options.value()));
  build->info.file = told.file;
  build->info.shipped = told.shipped;
  build->info.state = "loaded";
  return BuildPtr(std::move(build));
}

Outcome<BuildPtr> Loader::load(const fs::path& file, const config::PluginsConfig& config, const BuildBook& book,
                               bool shipped, PluginInfo& told) {
  told.file = file;
  told.shipped = shipped;
  told.state = "refused";
  const auto load = [&]() -> Outcome<BuildPtr> {
    BOOST_OUTCOME_TRY(PrivateCopy copy, PrivateCopy::make(file, paths_.copies));
    told.checksum = copy.checksum();
    if (const Bar* bar = book.bar_of(copy.checksum()); bar != nullptr) {
      told.state = "barred";
      told.kind = bar->kind;
      told.name = bar->name;
      told.version = bar->version;
      return Error{Errc::bad_plugin, bar->reason};
    }
    Manifest manifest;
    if (!shipped) {
      BOOST_OUTCOME_TRY(manifest, read_manifest(file));
      // Of the copy: it is what will run.
      auto content = toml::read_file(copy.path(), kMaxPluginBytes);
      if (!content) return Error{Errc::bad_plugin, content.error().detail};
      if (!config.trusted_keys.empty()) {
        BOOST_OUTCOME_TRY(check_signature(file, view_of(content.value()), config.trusted_keys));
        // Kept with the copy: a build that is put back later must be vouched for as well.
        BOOST_OUTCOME_TRY(keep_signature(file, copy.path()));
      }
      Manifest sum;
      sum.sha256 = manifest.sha256;
      BOOST_OUTCOME_TRY(check_manifest(sum, view_of(content.value()), {}, 0));
    }
    return finish(std::move(copy), manifest, config, Options::must_fit, told);
  };
  Outcome<BuildPtr> loaded = load();
  if (loaded) return loaded;
  told.reason = escaped(loaded.error().detail, 512);
  told.may_pass = loaded.error().code == Errc::no_space || loaded.error().code == Errc::io_error;
  return loaded;
}

Outcome<BuildPtr> Loader::reload(const Build& build, const config::PluginsConfig& config, bool is_shipped) {
  BOOST_OUTCOME_TRY(PrivateCopy copy, PrivateCopy::reopen(build.checksum, paths_.copies));
  if (!config.trusted_keys.empty() && !is_shipped) {
    auto content = toml::read_file(copy.path(), kMaxPluginBytes);
    if (!content) return Error{Errc::bad_plugin, content.error().detail};
    BOOST_OUTCOME_TRY(check_signature(copy.path(), view_of(content.value()), config.trusted_keys));
  }
  PluginInfo told;
  told.checksum = build.checksum;
  told.file = copy.path();
  return finish(std::move(copy), {}, config, Options::may_fit, told);
}

}  // namespace gearbox::plugin_host
