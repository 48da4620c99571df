// A scanner that knows just enough of TOML (strings, comments, brackets, dots) to bound the recursion of the real
// parser. It has to agree with the parser only up to the first syntax error, because the parser stops there.
#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::toml {

namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Outcome<void> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\0') return refuse("contains a NUL byte");
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
