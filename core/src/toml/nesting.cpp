// A scanner that knows just enough of TOML (strings, comments, brackets, dots) to bound the recursion of the real
// parser, and to keep from it the one thing that it takes for impossible: a table's header without a name. It has to
// agree with the parser only up to the first syntax error, because the parser stops there.
#include <algorithm>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::toml {

namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Outcome<void> run() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = line_start_ = 3;  // a byte order mark
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\0') return refuse("contains a NUL byte");
      if (c == '[' && depth_ == 0 && is_first_of_line() && !names_table()) return refuse("a table without a name");
      switch (c) {
        case '#':
          skip_comment();
          continue;
        case '"':
        case '\'':
          skip_string(c);
          continue;
        case '\n':
          dots_ = 0;
          ++line_;
          line_start_ = at_ + 1;
          break;
        case '.':
          if (++dots_ >= kMaxNesting)
            return refuse("a dotted key of more than " + std::to_string(kMaxNesting) + " parts");
          break;
        case '[':
        case '{':
          dots_ = 0;
          if (++depth_ > kMaxNesting) return refuse("nested more than " + std::to_string(kMaxNesting) + " deep");
          break;
        case ']':
        case '}':
          dots_ = 0;
          if (depth_ > 0) --depth_;
          break;
        case '=':
        case ',':
          dots_ = 0;
          break;
        default:
          break;
      }
      ++at_;
    }
    return done();
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t'; }
  bool is_first_of_line() const {
    const std::string_view before = text_.substr(line_start_, at_ - line_start_);
    return std::all_of(before.begin(), before.end(), is_space);
  }
  /// A '[' begins a header: is there a name behind it? A ']' or the text's end is left to the parser's better words.
  bool names_table() const {
    std::size_t at = at_ + 1;
    while (at < text_.size() && is_space(text_[at])) ++at;
    if (at < text_.size() && text_[at] == '[') ++at;
    while (at < text_.size() && is_space(text_[at])) ++at;
    if (at == text_.size()) return true;
    const char c = text_[at];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '"' || c == '\'' || c == ']';
  }
  Error refuse(const std::string& what) const {
    return Error{Errc::bad_config, std::to_string(line_) + ":" + std::to_string(at_ - line_start_ + 1) + ": " + what};
  }

  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void newline() {
    ++line_;
    line_start_ = at_ + 1;
  }

  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool multi_line = text_.substr(at_, 3) == three;
    at_ += multi_line ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
          ++at_;
          newline();
          ++at_;
        } else {
          at_ += 2;
        }
        continue;
      }
      if (!multi_line && (c == quote || c == '\n')) {  // a line's end in a string: the parser stops there
        if (c == quote) ++at_;
        return;
      }
      if (multi_line && text_.substr(at_, 3) == three) {
        at_ += 3;
        while (at_ < text_.size() && text_[at_] == quote) ++at_;  // up to two quotes may stand before the closing three
        return;
      }
      if (c == '\n') newline();
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
  std::size_t dots_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

Outcome<void> check_nesting(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace gearbox::toml
