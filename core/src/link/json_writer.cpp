#include "link/json_writer.hpp"

#include <array>
#include <charconv>

#include "gearbox/base/text.hpp"

namespace gearbox::link {

void JsonWriter::name(std::string_view member) {
  if (text_.size() > 1) text_ += ',';
  quote(member);
  text_ += ':';
}

void JsonWriter::quote(std::string_view text) {
  if (!is_utf8(text)) {
    const std::string printable = escaped(text, 4 * text.size() + 4);
    return quote(printable);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  text_ += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (code < 0x20 || code == 0x7F) {
      text_ += "\\u00";
      text_ += kDigits[code >> 4];
      text_ += kDigits[code & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

JsonWriter& JsonWriter::add(std::string_view member, std::string_view text) {
  name(member);
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::add(std::string_view member, bool flag) {
  name(member);
  text_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::add(std::string_view member, double number) {
  name(member);
  std::array<char, 32> digits;  // the shortest that reads back as the same number
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text_.append(digits.data(), end.ptr);
  return *this;
}

JsonWriter& JsonWriter::add(std::string_view member, const std::vector<std::string>& texts) {
  name(member);
  text_ += '[';
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i != 0) text_ += ',';
    quote(texts[i]);
  }
  text_ += ']';
  return *this;
}

JsonWriter& JsonWriter::add(std::string_view member, const std::vector<std::int64_t>& numbers) {
  name(member);
  text_ += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) text_ += ',';
    text_ += std::to_string(numbers[i]);
  }
  text_ += ']';
  return *this;
}

JsonWriter& JsonWriter::add(std::string_view member, const std::map<std::string, std::string>& texts) {
  name(member);
  text_ += '{';
  bool first = true;
  for (const auto& [key, value] : texts) {
    if (!first) text_ += ',';
    first = false;
    quote(key);
    text_ += ':';
    quote(value);
  }
  text_ += '}';
  return *this;
}

JsonWriter& JsonWriter::add_json(std::string_view member, std::string_view json) {
  name(member);
  text_ += json;
  return *this;
}

}  // namespace gearbox::link
