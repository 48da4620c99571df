#include "gearbox/base/text.hpp"
#include "plugin_host/guards.hpp"
#include "plugin_host/option_values.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

std::string Table::refusals() const {
  std::string text;
  for (const PluginInfo& info : others_) {
    if (info.state == "shadowed") continue;
    text += "; " + info.file.filename().string() + " was " + info.state + ": " + info.reason;
  }
  return text;
}

Outcome<const Table::Entry*> Table::find(std::string_view kind, std::string_view name) const {
  const auto found = entries_.find(std::pair(std::string(kind), std::string(name)));
  if (found != entries_.end()) return &found->second;
  std::string there;
  for (const std::string& other : names(kind)) there += (there.empty() ? "" : ", ") + other;
  return Error{Errc::bad_plugin, "no " + std::string(kind) + " is called '" + escaped(name, kMaxNameBytes) +
                                     "'; there is " + (there.empty() ? "none" : there) + refusals()};
}

template <plugin::Kind kind>
auto Table::instance(const Entry& entry) const {
  using Class = typename plugin::KindTraits<kind>::Class;
  const auto make = [&]() -> Outcome<Instance<Class>> {
    BOOST_OUTCOME_TRY(const OptionValues options, OptionValues::make(entry.info.options, entry.options));
    BOOST_OUTCOME_TRY(auto made, entry.library->make<kind>(options));
    return guarded(entry.library, std::move(made));
  };
  return make();
}

Outcome<Instance<plugin::Sink>> Table::sink(std::string_view name,
                                            const std::map<std::string, config::OptionValue>& own) const {
  BOOST_OUTCOME_TRY(const Entry* entry, find("sink", name));
  Entry with_own = *entry;
  for (const auto& [key, value] : own) with_own.options.insert_or_assign(key, value);
  return instance<plugin::Kind::sink>(with_own);
}

bool Table::lacks_barred(std::string_view kind, std::string_view name) const {
  return edition(kind, name) == 0 && barred_.contains(Key(kind, name));
}

Outcome<Instance<plugin::Balancer>> Table::balancer(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Entry* entry, find("balancer", name));
  return instance<plugin::Kind::balancer>(*entry);
}

Outcome<Instance<plugin::GearPolicy>> Table::gear_policy(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Entry* entry, find("gear", name));
  return instance<plugin::Kind::gear>(*entry);
}

Outcome<Instance<plugin::Coordination>> Table::coordination(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Entry* entry, find("coordination", name));
  return instance<plugin::Kind::coordination>(*entry);
}

std::string Table::balancer_or_stand_in(std::string_view name) const {
  const auto has = [&](std::string_view wanted) { return edition("balancer", wanted) != 0; };
  if (has(name) || !barred_.contains(Key("balancer", name))) return std::string(name);
  constexpr std::string_view kStandIn = "least_loaded";
  if (has(kStandIn)) return std::string(kStandIn);
  const auto any = names("balancer");
  return any.empty() ? std::string(name) : any.front();
}

Outcome<Instance<plugin::Codec>> Table::codec(std::string_view name) const {
  BOOST_OUTCOME_TRY(const Entry* entry, find("codec", name));
  return instance<plugin::Kind::codec>(*entry);
}

const Table::Entry* Table::serving(std::string_view url) const {
  const std::string_view scheme = url.substr(0, url.find("://"));
  for (const auto& [key, entry] : entries_) {
    if (key.first == "transport" && entry.scheme == scheme) return &entry;
  }
  return nullptr;
}

Outcome<Instance<plugin::Transport>> Table::transport_for(std::string_view url) const {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos)
    return Error{Errc::bad_input, "'" + escaped(url, 128) + "' is no URL (tcp://HOST:PORT)"};
  if (const Entry* entry = serving(url); entry != nullptr) return instance<plugin::Kind::transport>(*entry);
  std::string schemes;
  for (const auto& [key, entry] : entries_) {
    if (key.first == "transport") schemes += (schemes.empty() ? "" : ", ") + entry.scheme;
  }
  return Error{Errc::bad_plugin, "no transport serves '" + escaped(url.substr(0, mark), 32) + "://'; there is " +
                                     (schemes.empty() ? "none" : schemes) + refusals()};
}

std::uint64_t Table::edition(std::string_view kind, std::string_view name) const {
  const auto found = entries_.find(std::pair(std::string(kind), std::string(name)));
  return found == entries_.end() ? 0 : found->second.edition;
}

const PluginInfo* Table::info(std::string_view kind, std::string_view name) const {
  const auto found = entries_.find(std::pair(std::string(kind), std::string(name)));
  return found == entries_.end() ? nullptr : &found->second.info;
}

std::uint64_t Table::transport_edition(std::string_view url) const {
  const Entry* entry = serving(url);
  return entry == nullptr ? 0 : entry->edition;
}

std::vector<std::string> Table::names(std::string_view kind) const {
  std::vector<std::string> all;
  for (const auto& [key, entry] : entries_) {
    if (key.first == kind) all.push_back(key.second);
  }
  return all;
}

}  // namespace gearbox::plugin_host
