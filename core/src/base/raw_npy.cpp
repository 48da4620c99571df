#include <optional>
#include <string>
#include <utility>

#include "base/raw_formats.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::wire::raw {

namespace {
constexpr std::size_t kMaxHeaderBytes = 64 * 1024;
constexpr std::size_t kMaxDimensions = 4;

Error bad(std::string why) {
  return Error{Errc::bad_picture, ".npy " + std::move(why)};
}

/// A reader for the one Python literal that stands in an .npy header: {'descr': '<u2', 'fortran_order': False, 'shape':
/// (2, 3), } Anything else, such as a list of fields, is refused where it begins. No recursion, so no depth to exhaust.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// A quoted string without escapes.
  std::optional<std::string_view> quoted() {
    blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return inside;
  }
  std::optional<std::int64_t> number() {
    blanks();
    const std::size_t start = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (at_ - start >= 18) return std::nullopt;  // 10^18 elements fit into no file, and more digits into no int64
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == start) return std::nullopt;
    return value;
  }
  bool at_end() {
    blanks();
    return at_ == text_.size();
  }
  std::size_t at() const { return at_; }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

Outcome<void> read_dtype(std::string_view text, Header& header) {
  struct Known {
    std::string_view code;
    DType type;
  };
  constexpr Known kKnown[] = {{"b1", DType::boolean}, {"u1", DType::uint8},  {"u2", DType::uint16},
                              {"u4", DType::uint32},  {"u8", DType::uint64}, {"i1", DType::int8},
                              {"i2", DType::int16},   {"i4", DType::int32},  {"i8", DType::int64},
                              {"f2", DType::fp16},    {"f4", DType::fp32},   {"f8", DType::fp64}};
  const std::string_view order = text.substr(0, 1);
  for (const Known& known : kKnown) {
    if (text.size() != 3 || text.substr(1) != known.code) continue;
    const bool one_byte = element_bytes(known.type) == 1;
    if (order != "<" && order != ">" && !(order == "|" && one_byte)) break;
    header.dtype = known.type;
    header.big_endian = order == ">";
    return done();
  }
  return bad("of dtype '" + escaped(text, 32) + "': booleans, integers and floats of 1 to 8 bytes are read");
}

Outcome<void> read_shape(Literal& literal, Header& header) {
  if (!literal.take('(')) return bad("header: the shape is no tuple");
  while (!literal.take(')')) {
    const auto dimension = literal.number();
    if (!dimension)
      return bad("header: a dimension is no number from 0 to 10^18, at byte " + std::to_string(literal.at()));
    header.shape.push_back(*dimension);
    if (header.shape.size() > kMaxDimensions) return bad("has more than 4 dimensions");
    if (literal.take(',')) continue;
    if (!literal.take(')')) return bad("header: the shape does not end");
    break;
  }
  return done();
}
}  // namespace

Outcome<Header> npy_header(ByteView file) {
  if (file.size() < 10) return bad("is cut in its header");
  const auto version = std::to_integer<unsigned>(file[6]);
  std::size_t start = 10;
  std::size_t length = 0;
  if (version == 1) {
    length = load_le<std::uint16_t>(&file[8]);
  } else if (version == 2) {
    start = 12;
    if (file.size() < start) return bad("is cut in its header");
    length = load_le<std::uint32_t>(&file[8]);
  } else {
    return bad("of version " + std::to_string(version) + "; 1 and 2 are read");
  }
  if (length > kMaxHeaderBytes) return bad("header of " + std::to_string(length) + " bytes; 65536 are allowed");
  if (length > file.size() - start) return bad("is cut in its header");

  Header header;
  header.data_offset = start + length;
  Literal literal(text_of(file.subspan(start, length)));
  bool has_dtype = false;
  bool has_order = false;
  bool has_shape = false;
  if (!literal.take('{')) return bad("header is no dictionary");
  while (!literal.take('}')) {
    const auto key = literal.quoted();
    if (!key || !literal.take(':')) return bad("header does not parse at byte " + std::to_string(start + literal.at()));
    if (*key == "descr" && !has_dtype) {
      const auto text = literal.quoted();
      if (!text) return bad("of a dtype with fields; plain numbers are read");
      BOOST_OUTCOME_TRY(read_dtype(*text, header));
      has_dtype = true;
    } else if (*key == "fortran_order" && !has_order) {
      if (literal.take(std::string_view("True"))) return bad("in Fortran order; save it with numpy.ascontiguousarray");
      if (!literal.take(std::string_view("False"))) return bad("header: fortran_order is neither True nor False");
      has_order = true;
    } else if (*key == "shape" && !has_shape) {
      BOOST_OUTCOME_TRY(read_shape(literal, header));
      has_shape = true;
    } else {
      return bad("header has '" + escaped(*key, 32) + "', which is unknown or there twice");
    }
    if (literal.take(',')) continue;
    if (!literal.take('}')) return bad("header does not parse at byte " + std::to_string(start + literal.at()));
    break;
  }
  if (!has_dtype || !has_order || !has_shape) return bad("header lacks descr, fortran_order or shape");
  if (!literal.at_end()) return bad("header goes on behind its dictionary");
  if (header.shape.empty()) return bad("holds a single number, no array");
  return header;
}

}  // namespace gearbox::wire::raw
