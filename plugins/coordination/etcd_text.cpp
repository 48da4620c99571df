#include "coordination/etcd_text.hpp"

#include <sodium.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <charconv>

namespace gearbox::coordination {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxDepth = 16;

json::string_view view(std::string_view text) {
  return {text.data(), text.size()};
}

Error wrong(std::string_view what) {
  return Error{Errc::bad_frame, "etcd's answer: " + std::string(what)};
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // the zero at its end
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size(), '\0');
  std::size_t length = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(), nullptr,
                        &length, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
    return std::nullopt;
  bytes.resize(length);
  return bytes;
}

Outcome<json::object> parse_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code bad;
  json::value value = json::parse(view(text.substr(0, text.find('\n'))), bad, {}, options);
  if (bad || !value.is_object()) return wrong("no JSON object");
  return std::move(value.get_object());
}

Outcome<std::int64_t> number_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(view(member));
  if (value == nullptr) return 0;
  if (value->is_int64()) return value->get_int64();
  if (!value->is_string()) return wrong("no number under " + std::string(member));
  const json::string& text = value->get_string();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return wrong("no number under " + std::string(member));
  return number;
}

const json::object* object_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(view(member));
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

std::string text_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(view(member));
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

Outcome<std::vector<KeyValue>> keys_in(const json::object& range) {
  std::vector<KeyValue> keys;
  const json::value* list = range.if_contains("kvs");
  if (list == nullptr) return keys;
  if (!list->is_array()) return wrong("no list of keys");
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) return wrong("no key");
    const json::object& object = each.get_object();
    const auto key = from_base64(text_in(object, "key"));
    const auto value = from_base64(text_in(object, "value"));
    if (!key || !value) return wrong("no Base64");
    KeyValue read;
    read.key = *key;
    read.value = *value;
    BOOST_OUTCOME_TRY(read.mod_revision, number_in(object, "mod_revision"));
    BOOST_OUTCOME_TRY(read.lease, number_in(object, "lease"));
    keys.push_back(std::move(read));
  }
  return keys;
}

std::string to_text(const HolderText& holder) {
  return json::serialize(json::object{{"holder", holder.holder}, {"home", holder.home}, {"term", holder.term}});
}

std::optional<HolderText> read_holder(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return std::nullopt;
  const auto term = number_in(object.value(), "term");
  if (!term || term.value() <= 0) return std::nullopt;
  HolderText holder;
  holder.holder = text_in(object.value(), "holder");
  holder.home = text_in(object.value(), "home");
  holder.term = static_cast<std::uint64_t>(term.value());
  return holder;
}

}  // namespace gearbox::coordination
