#include "stream_text.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"
#include "tensor_text.hpp"

namespace gearbox::client {

namespace {

constexpr std::size_t kPreview = 16;

/// Bytes that the character beginning with `lead` has; 0 when none begins so.
std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Bytes at the end of `text` that may be the front of a character.
std::size_t cut_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const unsigned char byte = byte_at(text, text.size() - back);
    if ((byte & 0xC0U) == 0x80U) continue;  // inside of a character: look at what is before it
    return announced_length(byte) > back ? back : 0;
  }
  return 0;
}

std::string shown(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t announced = std::max<std::size_t>(announced_length(byte_at(text, at)), 1);
    const std::string_view character = text.substr(at, announced);
    const bool whole = character.size() == announced && is_utf8(character);
    const bool plain = whole && (character == "\n" || character == "\t" || character == "\\");
    const std::size_t bytes = whole ? announced : 1;
    out += plain ? std::string(character) : escaped(text.substr(at, bytes), 64);
    at += bytes;
  }
  return out;
}

}  // namespace

std::string Utf8Pieces::add(std::string_view piece) {
  std::string text = std::move(held_);
  text += piece;
  const std::size_t cut = cut_bytes(text);
  held_ = text.substr(text.size() - cut);
  return shown(std::string_view(text).substr(0, text.size() - cut));
}

std::string Utf8Pieces::end() {
  const std::string rest = std::move(held_);
  held_.clear();
  return shown(rest);
}

std::string StreamText::add(const Part& part) {
  std::string out;
  ByteView rest(part.payload);
  for (const wire::TensorSpec& spec : part.tensors) {
    const ByteView bytes = rest.first(spec.bytes);
    rest = rest.subspan(spec.bytes);
    if (spec.dtype == wire::DType::uint8 && spec.shape.size() == 1) {
      out += pieces_[spec.name].add(text_of(bytes));
    } else if (spec.dtype == wire::DType::bytes) {
      const auto elements = split_bytes(spec, bytes);
      if (!elements) out += describe(elements.error()) + "\n";
      if (!elements) continue;
      for (const std::string_view element : elements.value()) out += pieces_[spec.name].add(element);
    } else {
      if (out.empty() ? in_line_ : out.back() != '\n') out += '\n';
      const Outcome<std::string> values = preview(spec, bytes, kPreview);
      out += escaped(spec.name, 64) + " " + type_and_shape(spec) + ": ";
      out += (values ? values.value() : describe(values.error())) + "\n";
    }
  }
  if (!out.empty()) in_line_ = out.back() != '\n';
  return out;
}

std::string StreamText::end() {
  std::string out;
  for (auto& [name, pieces] : pieces_) out += pieces.end();
  if (out.empty() ? in_line_ : out.back() != '\n') out += '\n';
  in_line_ = false;
  return out;
}

}  // namespace gearbox::client
