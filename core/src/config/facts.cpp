#include "config/facts.hpp"

#include <algorithm>

namespace gearbox::config {

namespace json = boost::json;

namespace {

// Of values in one answer, as JSON writes them; a frame may have 64 KiB of it, and the reasons of a refusal come
// beside.
constexpr std::size_t kMaxPieceBytes = 32 * 1024;

/// At most this many bytes are needed for `text` in JSON, quotes and separator included.
std::size_t json_bytes(const std::string& text) {
  std::size_t bytes = 3;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    bytes += code < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : 1;
  }
  return bytes;
}

std::uint64_t number_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code bad;
  const auto number = value->to_number<std::uint64_t>(bad);
  return bad ? 0 : number;
}

}  // namespace

json::object config_facts(const Config& config, const json::object& request) {
  const std::vector<Value> all = values_of(config);
  const std::size_t from = std::min<std::uint64_t>(number_of(request, "from"), all.size());
  json::object values;
  std::size_t bytes = 0;
  std::size_t at = from;
  for (; at < all.size(); ++at) {
    bytes += json_bytes(all[at].key) + json_bytes(all[at].value);
    if (bytes > kMaxPieceBytes && at > from) break;
    values.emplace(all[at].key, all[at].value);
  }
  json::object facts{{"folder", config.folder.string()}, {"digest", config.digest}, {"from", from}};
  facts["values"] = std::move(values);
  if (at < all.size()) facts["next"] = at;
  return facts;
}

Outcome<std::uint64_t> add_values(const json::object& facts, std::vector<Value>& values) {
  const json::value* piece = facts.if_contains("values");
  if (piece == nullptr || !piece->is_object()) return Error{Errc::bad_frame, "the answer has no values"};
  for (const auto& member : piece->get_object()) {
    if (!member.value().is_string()) return Error{Errc::bad_frame, "a value in the answer is no text"};
    values.push_back({std::string(member.key()), std::string(member.value().get_string()), Value::Kind::text, {}});
  }
  return number_of(facts, "next");
}

}  // namespace gearbox::config
