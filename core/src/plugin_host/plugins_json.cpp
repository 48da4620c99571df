#include "plugin_host/plugins_json.hpp"

#include <boost/json/object.hpp>

namespace gearbox::plugin_host {

namespace json = boost::json;

namespace {
constexpr std::size_t kMostOthers = 48;
constexpr std::size_t kMaxReasonBytes = 240;
}  // namespace

json::array plugins_json(const std::vector<PluginInfo>& plugins) {
  json::array all;
  std::size_t others = 0;
  for (const PluginInfo& plugin : plugins) {
    // The answer must fit into one control frame, whatever lies in the folder.
    if (plugin.state != "loaded" && ++others > kMostOthers) continue;
    json::array options;
    for (const OptionInfo& option : plugin.options) {
      json::object row{{"key", option.key}, {"default", option.fallback}, {"unit", option.unit}, {"help", option.help}};
      options.push_back(std::move(row));
    }
    json::object entry{{"name", plugin.name},
                       {"kind", plugin.kind},
                       {"version", plugin.version},
                       {"summary", plugin.summary},
                       {"checksum", plugin.checksum},
                       {"state", plugin.state},
                       {"reason", plugin.reason.substr(0, kMaxReasonBytes)},
                       {"shipped", plugin.shipped},
                       {"file", plugin.file.string()},
                       {"since_unix_ms", plugin.since_unix_ms},
                       {"calls", plugin.calls},
                       {"faults", plugin.faults},
                       {"p99_us", plugin.p99.count()},
                       {"options", std::move(options)}};
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace gearbox::plugin_host
