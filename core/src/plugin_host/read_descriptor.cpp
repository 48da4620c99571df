#include <cstring>

#include "gearbox/base/text.hpp"
#include "plugin_host/library.hpp"
#include "plugin_host/option_values.hpp"

namespace gearbox::plugin_host {

namespace {

constexpr std::size_t kMaxText = 1024;
constexpr std::uint32_t kMaxOptions = 256;

Error refused(std::string why) {
  return Error{Errc::bad_plugin, std::move(why)};
}

/// Text that lies in the plugin; never read further than kMaxText.
Outcome<std::string> text_from(const char* text, std::string_view what) {
  if (text == nullptr) return refused(std::string(what) + " is missing");
  const std::size_t length = ::strnlen(text, kMaxText + 1);
  if (length > kMaxText || !is_utf8(std::string_view(text, length)))
    return refused(std::string(what) + " is no text of at most 1024 bytes");
  return std::string(text, length);
}

Outcome<std::string> type_from(plugin::OptionType type) {
  switch (type) {
    case plugin::OptionType::integer:
      return std::string("integer");
    case plugin::OptionType::number:
      return std::string("number");
    case plugin::OptionType::boolean:
      return std::string("boolean");
    case plugin::OptionType::text:
      return std::string("text");
  }
  return refused("an option is of the unknown type " + std::to_string(static_cast<std::uint32_t>(type)));
}

Outcome<std::vector<OptionInfo>> read_options(const plugin::Descriptor& descriptor) {
  if (descriptor.option_count > kMaxOptions) return refused("has more than 256 options");
  if (descriptor.option_count > 0 && descriptor.options == nullptr) return refused("has no options table");
  std::vector<OptionInfo> options;
  for (std::uint32_t i = 0; i < descriptor.option_count; ++i) {
    const plugin::OptionSpec& spec = descriptor.options[i];
    OptionInfo option;
    BOOST_OUTCOME_TRY(option.key, text_from(spec.key, "an option's key"));
    if (!is_name(option.key)) return refused("'" + escaped(option.key, 64) + "' is no name of an option");
    for (const OptionInfo& earlier : options) {
      if (earlier.key == option.key) return refused("option '" + option.key + "' is there twice");
    }
    BOOST_OUTCOME_TRY(option.type, type_from(spec.type));
    BOOST_OUTCOME_TRY(option.fallback, text_from(spec.fallback, "an option's default"));
    BOOST_OUTCOME_TRY(option.unit, text_from(spec.unit, "an option's unit"));
    BOOST_OUTCOME_TRY(option.help, text_from(spec.help, "an option's help"));
    option.lowest = spec.lowest;
    option.highest = spec.highest;
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace

std::uint32_t api_of(plugin::Kind kind) {
  switch (kind) {
    case plugin::Kind::transport:
      return plugin::kTransportApi;
    case plugin::Kind::balancer:
      return plugin::kBalancerApi;
    case plugin::Kind::codec:
      return plugin::kCodecApi;
    case plugin::Kind::sink:
      return plugin::kSinkApi;
    case plugin::Kind::gear:
      return plugin::kGearApi;
    case plugin::Kind::coordination:
      return plugin::kCoordinationApi;
    default:
      return 0;
  }
}

std::uint32_t api_of(std::string_view kind) {
  for (const plugin::Kind known : {plugin::Kind::transport, plugin::Kind::balancer, plugin::Kind::codec,
                                   plugin::Kind::sink, plugin::Kind::gear, plugin::Kind::coordination}) {
    if (name_of(known) == kind) return api_of(known);
  }
  return 0;
}

std::string_view name_of(plugin::Kind kind) {
  switch (kind) {
    case plugin::Kind::transport:
      return "transport";
    case plugin::Kind::balancer:
      return "balancer";
    case plugin::Kind::codec:
      return "codec";
    case plugin::Kind::sink:
      return "sink";
    case plugin::Kind::gear:
      return "gear";
    case plugin::Kind::coordination:
      return "coordination";
    default:
      return {};
  }
}

Outcome<PluginInfo> read_descriptor(const plugin::Descriptor& descriptor) {
  if (descriptor.magic != plugin::kMagic) return refused("its gearbox_plugin is no descriptor (wrong magic)");
  if (descriptor.struct_bytes < sizeof(plugin::Descriptor) || descriptor.struct_bytes > 65536) {
    return refused("its descriptor has " + std::to_string(descriptor.struct_bytes) + " bytes, at least " +
                   std::to_string(sizeof(plugin::Descriptor)) + " are needed");
  }
  BOOST_OUTCOME_TRY(const std::string tag, text_from(descriptor.abi_tag, "the ABI tag"));
  if (tag != GEARBOX_ABI_TAG)
    return refused("was built for another ABI: '" + escaped(tag, 128) + "', this is '" GEARBOX_ABI_TAG "'");
  PluginInfo info;
  info.kind = std::string(name_of(descriptor.kind));
  if (info.kind.empty())
    return refused("is of kind " + std::to_string(static_cast<std::uint32_t>(descriptor.kind)) +
                   ", which is unknown here");
  if (descriptor.api != api_of(descriptor.kind)) {
    return refused("was built for version " + std::to_string(descriptor.api) + " of the " + info.kind +
                   " interface, this is version " + std::to_string(api_of(descriptor.kind)));
  }
  BOOST_OUTCOME_TRY(info.name, text_from(descriptor.name, "the name"));
  if (!is_name(info.name)) return refused("'" + escaped(info.name, 64) + "' is no name of a plugin");
  BOOST_OUTCOME_TRY(info.version, text_from(descriptor.version, "the version"));
  BOOST_OUTCOME_TRY(info.summary, text_from(descriptor.summary, "the summary"));
  info.version = escaped(info.version, 64);
  info.summary = escaped(info.summary, 256);
  if (descriptor.make == nullptr) return refused("has no make function");
  BOOST_OUTCOME_TRY(info.options, read_options(descriptor));
  if (const auto defaults = OptionValues::make(info.options, {}); !defaults) {
    return refused("its own defaults are wrong: " + escaped(defaults.error().detail, 256));
  }
  return info;
}

}  // namespace gearbox::plugin_host
