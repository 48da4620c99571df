#include "cli/answer_text.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

/// The elements of a BYTES tensor; nothing when the lengths do not fit.
std::optional<std::vector<std::string_view>> elements(ByteView bytes) {
  std::vector<std::string_view> out;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    const auto length = load_le<std::uint32_t>(bytes.data());
    bytes = bytes.subspan(4);
    if (length > bytes.size()) return std::nullopt;
    out.push_back(text_of(bytes.first(length)));
    bytes = bytes.subspan(length);
  }
  return out;
}

bool is_plain_bytes(const wire::TensorSpec& spec) {
  return spec.dtype == wire::DType::uint8 && spec.shape.size() == 1;
}

/// "boxes: FP32 [3,4]"
std::string headline(const wire::TensorSpec& spec) {
  std::string shape;
  for (const std::int64_t size : spec.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
  return escaped(spec.name, 64) + ": " + std::string(wire::name_of(spec.dtype)) + " [" + shape + "]";
}

/// Takes a tensor's bytes off the front.
ByteView take(ByteView& rest, const wire::TensorSpec& spec) {
  const ByteView bytes = rest.first(std::min<std::size_t>(spec.bytes, rest.size()));
  rest = rest.subspan(bytes.size());
  return bytes;
}

}  // namespace

json::array tensors_json(const std::vector<wire::TensorSpec>& tensors, ByteView payload, bool small_ones) {
  json::array out;
  for (const wire::TensorSpec& spec : tensors) {
    const ByteView bytes = take(payload, spec);
    json::array shape(spec.shape.begin(), spec.shape.end());
    json::object each{{"name", spec.name},
                      {"dtype", std::string(wire::name_of(spec.dtype))},
                      {"shape", std::move(shape)},
                      {"bytes", spec.bytes}};
    const auto words = spec.dtype == wire::DType::bytes ? elements(bytes) : std::nullopt;
    if (words) {
      json::array values;
      for (const std::string_view word : *words) {
        values.emplace_back(is_utf8(word) ? std::string(word) : escaped(word, word.size() * 4));
      }
      each["values"] = std::move(values);
    } else if (small_ones && is_plain_bytes(spec)) {
      json::array values;
      for (const std::byte byte : bytes) values.emplace_back(std::to_integer<unsigned>(byte));
      each["values"] = std::move(values);
    }
    out.push_back(std::move(each));
  }
  return out;
}

std::string tensors_text(const std::vector<wire::TensorSpec>& tensors, ByteView payload) {
  std::string out;
  for (const wire::TensorSpec& spec : tensors) {
    const ByteView bytes = take(payload, spec);
    const auto words = spec.dtype == wire::DType::bytes ? elements(bytes) : std::nullopt;
    if (!words) {
      out += headline(spec) + "\n";
      continue;
    }
    for (const std::string_view word : *words) out += escaped(word, 4096) + "\n";
  }
  return out;
}

std::string PartsText::add(const std::vector<wire::TensorSpec>& tensors, ByteView payload) {
  std::string out;
  for (const wire::TensorSpec& spec : tensors) {
    const ByteView bytes = take(payload, spec);
    const auto words = spec.dtype == wire::DType::bytes ? elements(bytes) : std::nullopt;
    if (is_plain_bytes(spec)) {
      out += pieces_[spec.name].add(text_of(bytes));
    } else if (words) {
      for (const std::string_view word : *words) out += pieces_[spec.name].add(word);
    } else {
      if (out.empty() ? in_line_ : out.back() != '\n') out += '\n';
      out += headline(spec) + "\n";
    }
  }
  if (!out.empty()) in_line_ = out.back() != '\n';
  return out;
}

std::string PartsText::end() {
  std::string out;
  for (auto& [name, pieces] : pieces_) out += pieces.end();
  if (out.empty() ? in_line_ : out.back() != '\n') out += '\n';
  in_line_ = false;
  return out;
}

}  // namespace gearbox::cli
