#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gearbox/base/text.hpp"
#include "plugin_host/check_child.hpp"

namespace gearbox::plugin_host {

namespace json = boost::json;

std::string to_json_line(const Outcome<PluginInfo>& result) {
  json::object line;
  line["ok"] = result.has_value();
  if (!result) {
    line["reason"] = result.error().detail;
    return json::serialize(line);
  }
  const PluginInfo& info = result.value();
  line["name"] = info.name;
  line["kind"] = info.kind;
  line["version"] = info.version;
  line["summary"] = info.summary;
  json::array options;
  for (const OptionInfo& option : info.options) {
    json::object one;
    one["key"] = option.key;
    one["type"] = option.type;
    one["fallback"] = option.fallback;
    one["unit"] = option.unit;
    one["help"] = option.help;
    one["lowest"] = option.lowest;
    one["highest"] = option.highest;
    options.push_back(std::move(one));
  }
  line["options"] = std::move(options);
  return json::serialize(line);
}

namespace {

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

double number_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  boost::system::error_code error;
  const double number = value->to_number<double>(error);
  return error ? 0 : number;
}

}  // namespace

Outcome<PluginInfo> from_json_line(std::string_view line) {
  const Error garbled{Errc::bad_plugin, "its check printed no result"};
  boost::system::error_code error;
  const json::value parsed = json::parse(line, error);
  const json::object* object = error ? nullptr : parsed.if_object();
  if (object == nullptr) return garbled;
  const json::value* ok = object->if_contains("ok");
  if (ok == nullptr || !ok->is_bool()) return garbled;
  if (!ok->get_bool()) return Error{Errc::bad_plugin, escaped(text_in(*object, "reason"), 512)};
  PluginInfo info;
  info.name = text_in(*object, "name");
  info.kind = text_in(*object, "kind");
  info.version = escaped(text_in(*object, "version"));
  info.summary = escaped(text_in(*object, "summary"));
  if (!is_name(info.name) || info.kind.empty()) return garbled;
  const json::value* options = object->if_contains("options");
  if (options != nullptr && options->is_array()) {
    for (const json::value& value : options->get_array()) {
      if (!value.is_object()) return garbled;
      const json::object& one = value.get_object();
      info.options.push_back({text_in(one, "key"), text_in(one, "type"), text_in(one, "fallback"), text_in(one, "unit"),
                              text_in(one, "help"), number_in(one, "lowest"), number_in(one, "highest")});
    }
  }
  return info;
}

}  // namespace gearbox::plugin_host
