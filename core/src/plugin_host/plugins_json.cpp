#include "plugin_host/plugins_json.hpp"

#include <boost/json/object.hpp>

namespace gearbox::plugin_host {

namespace json = boost::json;

json::array plugins_json(const std::vector<PluginInfo>& plugins) {
  json::array all;
  for (const PluginInfo& plugin : plugins) {
    json::array options;
    for (const OptionInfo& option : plugin.options) {
      json::object row{
          {"key", option.key}, {"default", option.fallback}, {"unit", option.unit}, {"help", option.help}};
      options.push_back(std::move(row));
    }
    json::object entry{{"name", plugin.name},
                       {"kind", plugin.kind},
                       {"version", plugin.version},
                       {"summary", plugin.summary},
                       {"checksum", plugin.checksum},
                       {"state", plugin.state},
                       {"reason", plugin.reason},
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
