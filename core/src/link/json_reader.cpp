#include "link/json_reader.hpp"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <array>
#include <new>

#include "gearbox/base/text.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::link {
namespace json = boost::json;

namespace {

std::string_view view(const json::string& text) {
  return {text.data(), text.size()};
}

std::string outside(std::string_view text) {
  return escaped(text, 64);
}

}  // namespace

const json::value* ObjectReader::find(std::string_view member) const {
  return good() ? object_.if_contains(json::string_view(member.data(), member.size())) : nullptr;
}

std::string ObjectReader::path() const {
  if (parent_ == nullptr) return {};
  std::string text = parent_->path();
  if (!text.empty()) text += '.';
  text += member_;
  if (index_ != kNotInList) text += '[' + std::to_string(index_) + ']';
  return text;
}

void ObjectReader::fail(std::string_view member, std::string_view complaint) {
  if (!good()) return;
  std::string where = path();
  if (!where.empty()) where += '.';
  where += member;
  root_->error_ = "member '" + where + "' " + std::string(complaint);
}

Outcome<void> ObjectReader::result() const {
  if (!good()) return Error{Errc::bad_frame, root_->error_};
  return done();
}

void ObjectReader::read(std::string_view member, std::string& into, std::size_t limit_bytes) {
  const json::value* value = find(member);
  if (value == nullptr) return;
  const json::string* text = value->if_string();
  if (text == nullptr) return fail(member, "must be a text");
  if (text->size() > limit_bytes) return fail(member, "is longer than " + std::to_string(limit_bytes) + " bytes");
  into.assign(view(*text));
}

void ObjectReader::read(std::string_view member, bool& into) {
  const json::value* value = find(member);
  if (value == nullptr) return;
  const bool* flag = value->if_bool();
  if (flag == nullptr) return fail(member, "must be true or false");
  into = *flag;
}

void ObjectReader::read(std::string_view member, double& into) {
  const json::value* value = find(member);
  if (value == nullptr) return;
  json::error_code not_one;
  const double number = value->is_number() ? value->to_number<double>(not_one) : 0;
  if (!value->is_number() || not_one) return fail(member, "must be a number");
  into = number;
}

void ObjectReader::read(std::string_view member, PublicKey& into) {
  std::string hex;
  read(member, hex, 64);
  if (!good() || find(member) == nullptr) return;
  if (!from_hex(hex, into.bytes)) fail(member, "must be 64 hexadecimal digits");
}

const json::array* ObjectReader::list(std::string_view member, std::size_t limit_items) {
  const json::value* value = find(member);
  if (value == nullptr) return nullptr;
  const json::array* items = value->if_array();
  if (items == nullptr) {
    fail(member, "must be a list");
  } else if (items->size() > limit_items) {
    fail(member, "has more than " + std::to_string(limit_items) + " items");
    return nullptr;
  }
  return items;
}

const json::object* ObjectReader::child(std::string_view member) {
  const json::value* value = find(member);
  if (value == nullptr) return nullptr;
  const json::object* object = value->if_object();
  if (object == nullptr) fail(member, "must be an object");
  return object;
}

const json::object* ObjectReader::item_object(const json::array& items, std::string_view member, std::size_t index) {
  const json::object* object = items[index].if_object();
  if (object == nullptr) fail(std::string(member) + '[' + std::to_string(index) + ']', "must be an object");
  return object;
}

void ObjectReader::read(std::string_view member, std::vector<std::string>& into, std::size_t limit_items) {
  const json::array* items = list(member, limit_items);
  if (items == nullptr) return;
  into.clear();
  for (std::size_t i = 0; i < items->size(); ++i) {
    const json::string* text = (*items)[i].if_string();
    if (text == nullptr) return fail(std::string(member) + '[' + std::to_string(i) + ']', "must be a text");
    into.emplace_back(view(*text));
  }
}

void ObjectReader::read(std::string_view member, std::vector<std::int64_t>& into, std::size_t limit_items) {
  const json::array* items = list(member, limit_items);
  if (items == nullptr) return;
  into.clear();
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::int64_t* number = (*items)[i].if_int64();  // also for uint64 below 2^63: the parser prefers int64
    if (number == nullptr) return fail(std::string(member) + '[' + std::to_string(i) + ']', "must be a whole number");
    into.push_back(*number);
  }
}

void ObjectReader::read(std::string_view member, std::map<std::string, std::string>& into, std::size_t limit_items) {
  const json::object* object = child(member);
  if (object == nullptr) return;
  if (object->size() > limit_items) return fail(member, "has more than " + std::to_string(limit_items) + " members");
  into.clear();
  for (const json::key_value_pair& pair : *object) {
    const std::string_view key(pair.key().data(), pair.key().size());
    const json::string* text = pair.value().if_string();
    if (text == nullptr) return fail(std::string(member) + '.' + outside(key), "must be a text");
    into.emplace(key, view(*text));
  }
}

std::int64_t ObjectReader::signed_number(std::string_view member, std::int64_t fallback, std::int64_t lowest,
                                         std::int64_t highest) {
  const json::value* value = find(member);
  if (value == nullptr) return fallback;
  const std::int64_t* number = value->if_int64();
  if (number != nullptr && *number >= lowest && *number <= highest) return *number;
  fail(member, "must be a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  return fallback;
}

std::uint64_t ObjectReader::unsigned_number(std::string_view member, std::uint64_t fallback, std::uint64_t highest) {
  const json::value* value = find(member);
  if (value == nullptr) return fallback;
  if (const std::int64_t* number = value->if_int64();
      number != nullptr && *number >= 0 && static_cast<std::uint64_t>(*number) <= highest) {
    return static_cast<std::uint64_t>(*number);
  }
  if (const std::uint64_t* number = value->if_uint64(); number != nullptr && *number <= highest) return *number;
  fail(member, "must be a whole number from 0 to " + std::to_string(highest));
  return fallback;
}

Outcome<void> read_text(std::string_view text, void (*fill)(ObjectReader&, void*), void* into) {
  if (text.size() > wire::kMaxJsonBytes) {
    return Error{Errc::bad_frame, "JSON of " + std::to_string(text.size()) + " bytes, at most " +
                                      std::to_string(wire::kMaxJsonBytes) + " are allowed"};
  }
  // Most messages are a few hundred bytes: their tree fits here and costs no allocation.
  std::array<unsigned char, 4096> first;
  json::monotonic_resource memory(first.data(), first.size());
  json::parse_options options;  // strict JSON: comments, trailing commas and invalid UTF-8 are errors
  options.max_depth = kMaxJsonDepth;
  try {
    json::error_code error;
    const json::value value = json::parse(json::string_view(text.data(), text.size()), error, &memory, options);
    if (error) return Error{Errc::bad_frame, "not JSON: " + error.message()};
    const json::object* object = value.if_object();
    if (object == nullptr) return Error{Errc::bad_frame, "not a JSON object"};
    ObjectReader reader(*object);
    fill(reader, into);
    return reader.result();
  } catch (const std::bad_alloc&) {
    return Error{Errc::no_space, "no memory to read JSON"};
  } catch (const std::exception& problem) {
    return Error{Errc::bad_frame, std::string("not JSON: ") + problem.what()};
  }
}

}  // namespace gearbox::link
