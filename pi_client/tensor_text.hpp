// tensor_text.hpp: a tensor's elements as text that is valid JSON and keeps every position.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::client {

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 must not come here.
void append_json_string(std::string& out, std::string_view text);

/// The elements of a BYTES tensor (u32le length + bytes each); views into `bytes`.
/// Errors: bad_result when the lengths do not add up to `bytes`, or not to the shape's count.
Outcome<std::vector<std::string_view>> split_bytes(const wire::TensorSpec& spec, ByteView bytes);

/// All elements in row-major order as one flat JSON array. Numbers keep their value when read back; "NaN", "Infinity"
/// and
/// "-Infinity" are strings; a BYTES element that is not UTF-8 becomes {"base64":"..."}.
/// Errors: bad_result when spec and bytes do not fit.
Outcome<void> append_json_elements(std::string& out, const wire::TensorSpec& spec, ByteView bytes);

/// The first `limit` elements for people, "…" after them when there are more. Errors: as above.
Outcome<std::string> preview(const wire::TensorSpec& spec, ByteView bytes, std::size_t limit);

/// "FP32 [1,5]"
std::string type_and_shape(const wire::TensorSpec& spec);

std::string to_base64(ByteView bytes);

}  // namespace gearbox::client
