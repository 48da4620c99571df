// json_writer.hpp: writes one JSON object, member by member. Text that is no UTF-8 is escaped as \xNN, so that what we
// send is always JSON, whatever was quoted in an error.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/ids.hpp"

namespace gearbox::link {

class JsonWriter {
 public:
  JsonWriter() : text_(1, '{') {}
  /// Room for `bytes` from the start: nothing is left behind in memory that was outgrown.
  explicit JsonWriter(std::size_t bytes) {
    text_.reserve(bytes);
    text_ += '{';
  }

  JsonWriter& add(std::string_view member, std::string_view text);
  JsonWriter& add(std::string_view member, const char* text) { return add(member, std::string_view(text)); }
  JsonWriter& add(std::string_view member, bool flag);
  JsonWriter& add(std::string_view member, double number);  // must be finite: JSON has no other
  JsonWriter& add(std::string_view member, const PublicKey& key) { return add(member, to_text(key)); }
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) JsonWriter& add(std::string_view member, Number number) {
    name(member);
    text_ += std::to_string(number);
    return *this;
  }
  JsonWriter& add(std::string_view member, const std::vector<std::string>& texts);
  JsonWriter& add(std::string_view member, const std::vector<std::int64_t>& numbers);
  JsonWriter& add(std::string_view member, const std::map<std::string, std::string>& texts);
  /// A member whose text is JSON already.
  JsonWriter& add_json(std::string_view member, std::string_view json);
  /// A list of objects; `to_text(item)` gives the JSON of one.
  template <class T, class ToText>
  JsonWriter& add_list(std::string_view member, const std::vector<T>& items, ToText item_text) {
    name(member);
    text_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) text_ += ',';
      text_ += item_text(items[i]);
    }
    text_ += ']';
    return *this;
  }

  /// The finished object; call once, last.
  std::string take() {
    text_ += '}';
    return std::move(text_);
  }

 private:
  void name(std::string_view member);
  void quote(std::string_view text);

  std::string text_;
};

}  // namespace gearbox::link
