#include "plugin_host/library.hpp"

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>

#include <exception>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace {

class OpenedLibrary final : public Library {
 public:
  OpenedLibrary(boost::dll::shared_library library, const plugin::Descriptor* descriptor, PluginInfo info,
                Setting setting)
      : Library(descriptor, std::move(info), std::move(setting)), library_(std::move(library)) {}
  ~OpenedLibrary() override {
    const Instant now = Clock::now();
    const CallRecord::Mark mark(record(), label(), "unload", now, now + rules().hang.load(std::memory_order_relaxed));
    library_.unload();
  }

 private:
  boost::dll::shared_library library_;
};

}  // namespace

Library::Library(const plugin::Descriptor* descriptor, PluginInfo info, Setting setting)
    : descriptor_(descriptor),
      info_(std::move(info)),
      setting_(std::move(setting)),
      label_(CallRecord::label(info_.kind, info_.name, info_.version, checksum())),
      health_(setting_.rules) {}

Outcome<std::shared_ptr<Library>> Library::open(const std::filesystem::path& file, Setting setting) {
  const PluginInfo& expected = setting.expected;
  const auto label = CallRecord::label(expected.kind, expected.name, expected.version,
                                       setting.copy ? setting.copy->checksum() : std::string());
  const Instant now = Clock::now();
  const std::shared_ptr<CallRecord> record = setting.record;
  const CallRecord::Mark mark(*record, label, "load", now, now + setting.rules->hang.load(std::memory_order_relaxed));
  // RTLD_LOCAL: two plugins may define the same names. RTLD_NOW: a missing symbol is found here, not in a call.
  try {
    boost::dll::fs::error_code error;
    boost::dll::shared_library library(file, error,
                                       boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    if (error) {
      const char* const reason = ::dlerror();
      return Error{Errc::bad_plugin,
                   "does not load: " + escaped(reason != nullptr ? std::string_view(reason) : error.message(), 256)};
    }
    if (!library.has("gearbox_plugin")) return Error{Errc::bad_plugin, "exports no gearbox_plugin"};
    const auto* descriptor = &library.get<const plugin::Descriptor>("gearbox_plugin");
    BOOST_OUTCOME_TRY(PluginInfo info, read_descriptor(*descriptor));
    info.checksum = setting.copy ? setting.copy->checksum() : std::string();
    return std::shared_ptr<Library>(
        std::make_shared<OpenedLibrary>(std::move(library), descriptor, std::move(info), std::move(setting)));
  } catch (const std::exception& thrown) {
    return Error{Errc::bad_plugin, "does not load: " + escaped(thrown.what(), 256)};
  } catch (...) {
    return Error{Errc::bad_plugin, "does not load: its start-up code threw"};
  }
}

template <plugin::Kind kind>
Outcome<std::unique_ptr<typename plugin::KindTraits<kind>::Class>> Library::make(const plugin::Options& options) const {
  if (descriptor_->kind != kind) return Error{Errc::bad_plugin, "'" + info_.name + "' is a " + info_.kind};
  const auto function = reinterpret_cast<plugin::Make<kind>>(reinterpret_cast<std::uintptr_t>(descriptor_->make));
  const Instant now = Clock::now();
  const CallRecord::Mark mark(record(), label_, "make", now, now + rules().hang.load(std::memory_order_relaxed));
  try {
    auto made = function(options);
    if (!made)
      return Error{Errc::bad_plugin, "'" + info_.name + "' cannot be made: " + escaped(describe(made.error()), 256)};
    if (made.value() == nullptr) return Error{Errc::bad_plugin, "'" + info_.name + "' gave no object"};
    return std::move(made).value();
  } catch (const std::exception& thrown) {
    return Error{Errc::bad_plugin, "'" + info_.name + "' threw while it was made: " + escaped(thrown.what(), 256)};
  } catch (...) {
    return Error{Errc::bad_plugin, "'" + info_.name + "' threw while it was made"};
  }
}

template Outcome<std::unique_ptr<plugin::Transport>> Library::make<plugin::Kind::transport>(
    const plugin::Options&) const;
template Outcome<std::unique_ptr<plugin::Balancer>> Library::make<plugin::Kind::balancer>(const plugin::Options&) const;
template Outcome<std::unique_ptr<plugin::Codec>> Library::make<plugin::Kind::codec>(const plugin::Options&) const;
template Outcome<std::unique_ptr<plugin::Sink>> Library::make<plugin::Kind::sink>(const plugin::Options&) const;
template Outcome<std::unique_ptr<plugin::GearPolicy>> Library::make<plugin::Kind::gear>(const plugin::Options&) const;
template Outcome<std::unique_ptr<plugin::Coordination>> Library::make<plugin::Kind::coordination>(
    const plugin::Options&) const;

}  // namespace gearbox::plugin_host
