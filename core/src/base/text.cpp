#include "gearbox/base/text.hpp"

#include <algorithm>
#include <numeric>

namespace gearbox {

namespace {
bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Length of the well-formed UTF-8 sequence at `at`, 0 when there is none (overlong, surrogate, cut, beyond U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned b0 = byte(0);
  if (b0 < 0x80) return 1;
  if (b0 >= 0xC2 && b0 <= 0xDF) return follows(1) ? 2 : 0;
  if (b0 >= 0xE0 && b0 <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (b0 == 0xE0 && byte(1) < 0xA0) return 0;
    if (b0 == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (b0 >= 0xF0 && b0 <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (b0 == 0xF0 && byte(1) < 0x90) return 0;
    if (b0 == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}
}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameBytes || !is_letter_or_digit(text.front())) return false;
  for (const char c : text) {
    if (!is_letter_or_digit(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return text.find("..") == std::string_view::npos;
}

Outcome<void> check_name(std::string_view what, std::string_view text) {
  if (is_name(text)) return done();
  return Error{Errc::bad_name, std::string(what) + " name '" + escaped(text, kMaxNameBytes) +
                                   "': 1 to 64 of A-Z a-z 0-9 . _ - are allowed, a letter or digit first"};
}

std::string escaped(std::string_view text, std::size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  std::size_t i = 0;
  while (i < text.size()) {
    if (out.size() >= limit) {
      out += "...";
      break;
    }
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    // U+0080..U+009F are control characters too, and U+2028/2029 end a line for some readers.
    const bool c1 = length == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool separator =
        length == 3 && c == 0xE2 && static_cast<unsigned char>(text[i + 1]) == 0x80 &&
        (static_cast<unsigned char>(text[i + 2]) == 0xA8 || static_cast<unsigned char>(text[i + 2]) == 0xA9);
    if (length == 0 || c < 0x20 || c == 0x7F || c == '\\' || c1 || separator) {
      const std::size_t bytes = length == 0 ? 1 : length;
      for (std::size_t k = 0; k < bytes; ++k) {
        const unsigned char raw = static_cast<unsigned char>(text[i + k]);
        if (raw == '\\') {
          out += "\\\\";
        } else {
          out += "\\x";
          out += kDigits[raw >> 4];
          out += kDigits[raw & 15];
        }
      }
      i += bytes;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string_view nearest(std::string_view text, const std::vector<std::string>& candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  std::vector<std::size_t> row;
  for (const std::string& candidate : candidates) {
    row.assign(candidate.size() + 1, 0);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= text.size() && text.size() <= 2 * kMaxNameBytes; ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t change = diagonal + (text[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace gearbox
