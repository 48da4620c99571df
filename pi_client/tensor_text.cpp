#include "tensor_text.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace {

/// IEEE half to float: exact for every value.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

template <class Number>
void append_number(std::string& out, Number value) {
  char text[64];
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), value);
  out.append(text, end.ptr);
}

template <class Float>
void append_float(std::string& out, Float value) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += std::signbit(value) ? "\"-Infinity\"" : "\"Infinity\"";
  } else {
    // The shortest text that reads back as the same value; "-0" keeps its sign only with a fraction for many readers.
    const std::size_t before = out.size();
    append_number(out, value);
    if (out.find_first_of(".e", before) == std::string::npos) out += ".0";
  }
}

template <class Signed, class Unsigned>
void append_signed(std::string& out, const std::byte* from) {
  append_number(out, std::bit_cast<Signed>(load_le<Unsigned>(from)));
}

void append_element(std::string& out, wire::DType type, const std::byte* from) {
  using wire::DType;
  switch (type) {
    case DType::boolean:
      out += std::to_integer<unsigned>(*from) != 0 ? "true" : "false";
      return;
    case DType::uint8:
      append_number(out, std::to_integer<unsigned>(*from));
      return;
    case DType::uint16:
      append_number(out, load_le<std::uint16_t>(from));
      return;
    case DType::uint32:
      append_number(out, load_le<std::uint32_t>(from));
      return;
    case DType::uint64:
      append_number(out, load_le<std::uint64_t>(from));
      return;
    case DType::int8:
      append_number(out, static_cast<int>(std::to_integer<std::int8_t>(*from)));
      return;
    case DType::int16:
      append_signed<std::int16_t, std::uint16_t>(out, from);
      return;
    case DType::int32:
      append_signed<std::int32_t, std::uint32_t>(out, from);
      return;
    case DType::int64:
      append_signed<std::int64_t, std::uint64_t>(out, from);
      return;
    case DType::fp16:
      append_float(out, from_half(load_le<std::uint16_t>(from)));
      return;
    case DType::fp32:
      append_float(out, std::bit_cast<float>(load_le<std::uint32_t>(from)));
      return;
    case DType::fp64:
      append_float(out, std::bit_cast<double>(load_le<std::uint64_t>(from)));
      return;
    case DType::bytes:
      return;  // no fixed size: split_bytes
  }
}

Error misfit(const wire::TensorSpec& spec, std::string why) {
  return Error{Errc::bad_result, "result tensor '" + escaped(spec.name, 64) + "': " + std::move(why)};
}

/// Elements of a tensor of fixed-size type. Errors: bad_result.
Outcome<std::size_t> checked_count(const wire::TensorSpec& spec, ByteView bytes) {
  const Outcome<std::uint64_t> count = wire::element_count(spec.shape);
  if (!count) return misfit(spec, count.error().detail);
  const std::size_t each = wire::element_bytes(spec.dtype);
  if (each == 0 || bytes.size() % each != 0 || bytes.size() / each != count.value()) {
    return misfit(spec, std::to_string(bytes.size()) + " bytes for " + std::to_string(count.value()) + " elements of " +
                            std::string(wire::name_of(spec.dtype)));
  }
  return static_cast<std::size_t>(count.value());
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const unsigned char raw = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (raw < 0x20 || raw == 0x7F) {
      out += "\\u00";
      out += kDigits[raw >> 4];
      out += kDigits[raw & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string to_base64(ByteView bytes) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = (word << 8) | (k < here ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= here ? kAlphabet[(word >> (18 - 6 * k)) & 63U] : '=';
  }
  return out;
}

Outcome<std::vector<std::string_view>> split_bytes(const wire::TensorSpec& spec, ByteView bytes) {
  const Outcome<std::uint64_t> count = wire::element_count(spec.shape);
  if (!count) return misfit(spec, count.error().detail);
  std::vector<std::string_view> elements;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at < 4) return misfit(spec, "cut in the middle of a length");
    const std::uint32_t size = load_le<std::uint32_t>(&bytes[at]);
    at += 4;
    if (size > bytes.size() - at)
      return misfit(spec, "element " + std::to_string(elements.size()) + " reaches past its end");
    elements.push_back(text_of(bytes.subspan(at, size)));
    at += size;
  }
  if (elements.size() != count.value()) {
    return misfit(spec, std::to_string(elements.size()) + " elements, its shape says " + std::to_string(count.value()));
  }
  return elements;
}

Outcome<void> append_json_elements(std::string& out, const wire::TensorSpec& spec, ByteView bytes) {
  if (spec.dtype == wire::DType::bytes) {
    BOOST_OUTCOME_TRY(const auto elements, split_bytes(spec, bytes));
    out += '[';
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) out += ',';
      if (is_utf8(elements[i])) {
        append_json_string(out, elements[i]);
      } else {
        out += "{\"base64\":\"" + to_base64(view_of(elements[i])) + "\"}";
      }
    }
    out += ']';
    return done();
  }
  BOOST_OUTCOME_TRY(const std::size_t count, checked_count(spec, bytes));
  const std::size_t each = wire::element_bytes(spec.dtype);
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    append_element(out, spec.dtype, &bytes[i * each]);
  }
  out += ']';
  return done();
}

Outcome<std::string> preview(const wire::TensorSpec& spec, ByteView bytes, std::size_t limit) {
  std::string out;
  if (spec.dtype == wire::DType::bytes) {
    BOOST_OUTCOME_TRY(const auto elements, split_bytes(spec, bytes));
    for (std::size_t i = 0; i < elements.size() && i < limit; ++i)
      out += (i > 0 ? " " : "") + escaped(elements[i], 120);
    if (elements.size() > limit) out += " …";
    return out;
  }
  BOOST_OUTCOME_TRY(const std::size_t count, checked_count(spec, bytes));
  const std::size_t each = wire::element_bytes(spec.dtype);
  for (std::size_t i = 0; i < count && i < limit; ++i) {
    if (i > 0) out += ' ';
    append_element(out, spec.dtype, &bytes[i * each]);
  }
  std::erase(out, '"');  // NaN needs none here
  if (count > limit) out += " …";
  return out;
}

std::string type_and_shape(const wire::TensorSpec& spec) {
  std::string out(wire::name_of(spec.dtype));
  out += " [";
  for (std::size_t i = 0; i < spec.shape.size(); ++i) out += (i > 0 ? "," : "") + std::to_string(spec.shape[i]);
  return out + "]";
}

}  // namespace gearbox::client
