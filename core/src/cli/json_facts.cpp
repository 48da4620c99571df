#include "cli/json_facts.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cstdio>

#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

Outcome<json::object> parse_object(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !value.is_object()) return Error{Errc::bad_frame, "the answer is no JSON object: " + escaped(text, 80)};
  return std::move(value.get_object());
}

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? escaped(value->get_string()) : std::string();
}

std::uint64_t number_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code bad;
  const auto number = value->to_number<std::uint64_t>(bad);
  return bad ? 0 : number;
}

bool truth_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

const json::array& list_in(const json::object& object, std::string_view key) {
  static const json::array kNone;
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_array() ? value->get_array() : kNone;
}

const json::object& object_in(const json::object& object, std::string_view key) {
  static const json::object kNone;
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_object() ? value->get_object() : kNone;
}

void print_json(const json::value& value) {
  const std::string text = json::serialize(value) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace gearbox::cli
