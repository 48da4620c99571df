// messages.hpp: what must hold for each message that has a pair of to_json() and from_json().
#pragma once

#include <string>

#include "fuzz.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::fuzz {

/// `json` without its fractions: Boost.JSON 1.81 reads some of them a last bit off.
inline std::string without_fractions(std::string_view json) {
  constexpr std::string_view kNumber = "0123456789+-.eE";
  std::string text;
  while (!json.empty()) {
    const std::size_t end = std::min(json.find_first_not_of(kNumber), json.size());
    const std::string_view number = json.substr(0, end);
    text += number.find_first_of(".eE") == std::string_view::npos ? number : std::string_view("#");
    text += json.substr(end, 1);
    json.remove_prefix(std::min(end + 1, json.size()));
  }
  return text;
}

/// What is read comes out the same when it is written and read again.
template <class T>
void read_message(std::string_view json) {
  const Outcome<T> first = wire::parse<T>(json);
  if (!first) return;
  const std::string written = wire::to_json(first.value());
  const Outcome<T> second = wire::parse<T>(written);
  require(second.has_value(), "what was written can be read");
  require(without_fractions(wire::to_json(second.value())) == without_fractions(written), "and stays the same");
}

}  // namespace gearbox::fuzz
