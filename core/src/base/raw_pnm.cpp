#include <string>
#include <utility>

#include "base/raw_formats.hpp"

namespace gearbox::wire::raw {

namespace {
constexpr std::int64_t kMaxSide = 1'000'000'000;
constexpr std::size_t kMaxHeaderBytes = 64 * 1024;  // comments included

Error bad(std::string why) {
  return Error{Errc::bad_picture, "PNM " + std::move(why)};
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/// Reads blanks, comments to the end of their line, then a number; `at` ends up behind it.
Outcome<std::int64_t> number(std::string_view text, std::size_t& at, const std::string& what) {
  while (at < text.size() && (is_space(text[at]) || text[at] == '#')) {
    if (text[at] != '#') {
      ++at;
      continue;
    }
    while (at < text.size() && text[at] != '\n' && text[at] != '\r') ++at;
  }
  std::int64_t value = 0;
  const std::size_t start = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > kMaxSide) return bad("header: " + what + " is over " + std::to_string(kMaxSide));
  }
  if (at == start) return bad("header has no " + what + " at byte " + std::to_string(at));
  return value;
}
}  // namespace

Outcome<Header> pnm_header(ByteView file) {
  const std::string_view text = text_of(file).substr(0, kMaxHeaderBytes);
  std::size_t at = 2;
  if (text.size() < 3 || !(is_space(text[2]) || text[2] == '#'))
    return bad("header is cut or damaged after its first two bytes");
  BOOST_OUTCOME_TRY(const std::int64_t width, number(text, at, "width"));
  BOOST_OUTCOME_TRY(const std::int64_t height, number(text, at, "height"));
  BOOST_OUTCOME_TRY(const std::int64_t highest, number(text, at, "maximum"));
  if (highest < 1 || highest > 65535)
    return bad("header: a maximum of " + std::to_string(highest) + " is not in 1..65535");
  if (at >= text.size() || !is_space(text[at])) return bad("header is not followed by one blank");
  Header header;
  header.shape = {height, width};
  if (text[1] == '6') header.shape.push_back(3);
  header.dtype = highest > 255 ? DType::uint16 : DType::uint8;
  header.big_endian = true;
  header.data_offset = at + 1;
  return header;
}

}  // namespace gearbox::wire::raw
