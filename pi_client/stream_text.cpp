#include "stream_text.hpp"

#include "gearbox/base/text.hpp"
#include "tensor_text.hpp"

namespace gearbox::client {

namespace {
constexpr std::size_t kPreview = 16;
}  // namespace

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
