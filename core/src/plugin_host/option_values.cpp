#include "plugin_host/option_values.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace {

/// The table's default, which is text; nothing when it is none of its type.
std::optional<config::OptionValue> parse_fallback(const OptionInfo& option) {
  const char* const begin = option.fallback.data();
  const char* const end = begin + option.fallback.size();
  if (option.type == "integer") {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return config::OptionValue(value);
  }
  if (option.type == "number") {
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return config::OptionValue(value);
  }
  if (option.type == "boolean") {
    if (option.fallback != "true" && option.fallback != "false") return std::nullopt;
    return config::OptionValue(option.fallback == "true");
  }
  return config::OptionValue(option.fallback);
}

std::string shortest(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc() ? std::string(text, end) : std::string("?");
}

/// What is wrong with `value`; empty when nothing is. An integer is taken for a number.
std::string fault_of(const OptionInfo& option, config::OptionValue& value) {
  if (option.type == "number" && std::holds_alternative<std::int64_t>(value)) {
    value = static_cast<double>(std::get<std::int64_t>(value));
  }
  const bool fits = (option.type == "integer" && std::holds_alternative<std::int64_t>(value)) ||
                    (option.type == "number" && std::holds_alternative<double>(value)) ||
                    (option.type == "boolean" && std::holds_alternative<bool>(value)) ||
                    (option.type == "text" && std::holds_alternative<std::string>(value));
  if (!fits) return "expected a value of type " + option.type;
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    number = static_cast<double>(*whole);
  } else if (const auto* broken = std::get_if<double>(&value)) {
    number = *broken;
  } else {
    return {};
  }
  if (!std::isfinite(number) || number < option.lowest || number > option.highest) {
    return shortest(number) + " is out of range (" + shortest(option.lowest) + " to " + shortest(option.highest) + ")";
  }
  return {};
}

}  // namespace

Outcome<OptionValues> OptionValues::make(const std::vector<OptionInfo>& declared, const Given& given) {
  OptionValues values;
  std::string faults;
  const auto fault = [&](std::string_view key, const std::string& what) {
    faults += (faults.empty() ? "" : "\n") + escaped(key, 64) + ": " + what;
  };
  std::vector<std::string> keys;
  for (const OptionInfo& option : declared) {
    keys.push_back(option.key);
    const auto found = given.find(option.key);
    std::optional<config::OptionValue> value = found != given.end() ? found->second : parse_fallback(option);
    if (!value) {
      fault(option.key, "the plugin's default '" + escaped(option.fallback, 64) + "' is no " + option.type);
      continue;
    }
    if (const std::string wrong = fault_of(option, *value); !wrong.empty()) fault(option.key, wrong);
    values.values_.emplace(option.key, std::move(*value));
  }
  for (const auto& [key, value] : given) {
    if (values.values_.contains(key)) continue;
    const std::string_view near = nearest(key, keys);
    fault(key, "the plugin has no such option" +
                   (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
  }
  if (!faults.empty()) return Error{Errc::bad_config, std::move(faults)};
  return values;
}

Given OptionValues::fitting(const std::vector<OptionInfo>& declared, const Given& given,
                            std::vector<std::string>& left_out) {
  Given fits;
  for (const auto& [key, value] : given) {
    if (make(declared, Given{{key, value}})) {
      fits.emplace(key, value);
    } else {
      left_out.push_back(key);
    }
  }
  return fits;
}

template <class T>
Outcome<T> OptionValues::get(std::string_view key, std::string_view type) const {
  const auto found = values_.find(key);
  if (found == values_.end())
    return Error{Errc::bad_plugin, "asked for the undeclared option '" + escaped(key, 64) + "'"};
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  return Error{Errc::bad_plugin,
               "asked for option '" + escaped(key, 64) + "' as " + std::string(type) + ", which it is not"};
}

Outcome<std::int64_t> OptionValues::integer(std::string_view key) const {
  return get<std::int64_t>(key, "integer");
}
Outcome<double> OptionValues::number(std::string_view key) const {
  return get<double>(key, "number");
}
Outcome<bool> OptionValues::boolean(std::string_view key) const {
  return get<bool>(key, "boolean");
}
Outcome<std::string> OptionValues::text(std::string_view key) const {
  return get<std::string>(key, "text");
}

}  // namespace gearbox::plugin_host
