// options.hpp: a plugin's options, declared once in a table; checks, defaults and `--help` come from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin {

enum class OptionType : std::uint32_t { integer = 1, number = 2, boolean = 3, text = 4 };

/// Plain data: it crosses the library's edge. Strings are zero-terminated literals of the plugin.
struct OptionSpec {
  const char* key;
  OptionType type;
  const char* fallback;     // the default, as text
  const char* unit;         // "requests", "ms"; empty where there is none
  const char* help;         // one sentence
  double lowest = -9.0e15;  // for integer and number
  double highest = 9.0e15;
};

/// The checked view of a plugin's own TOML table: every declared key has a value of its type and in its range.
/// Valid during the make call only. Asking for an undeclared key or another type: Errors: bad_plugin.
class Options {
 public:
  virtual ~Options() = default;
  virtual Outcome<std::int64_t> integer(std::string_view key) const = 0;
  virtual Outcome<double> number(std::string_view key) const = 0;
  virtual Outcome<bool> boolean(std::string_view key) const = 0;
  virtual Outcome<std::string> text(std::string_view key) const = 0;
};

}  // namespace gearbox::plugin
