// option_values.hpp: a plugin's options table and the user's [plugins.NAME] table, brought together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "gearbox/plugin/options.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

using Given = std::map<std::string, config::OptionValue>;

/// Every declared key with a value of its type and in its range.
class OptionValues final : public plugin::Options {
 public:
  /// Errors: bad_config; the detail has one line "KEY: what" for each fault, unknown keys included.
  static Outcome<OptionValues> make(const std::vector<OptionInfo>& declared, const Given& given);

  /// Those of `given` that the plugin has and takes; the others' names go into `left_out`.
  static Given fitting(const std::vector<OptionInfo>& declared, const Given& given, std::vector<std::string>& left_out);

  Outcome<std::int64_t> integer(std::string_view key) const override;
  Outcome<double> number(std::string_view key) const override;
  Outcome<bool> boolean(std::string_view key) const override;
  Outcome<std::string> text(std::string_view key) const override;

 private:
  template <class T>
  Outcome<T> get(std::string_view key, std::string_view type) const;
  std::map<std::string, config::OptionValue, std::less<>> values_;
};

}  // namespace gearbox::plugin_host
