#include "gearbox/wire/tensor.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::wire {

namespace {
struct Known {
  DType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr Known kKnown[] = {{DType::boolean, "BOOL", 1},  {DType::uint8, "UINT8", 1},   {DType::uint16, "UINT16", 2},
                            {DType::uint32, "UINT32", 4}, {DType::uint64, "UINT64", 8}, {DType::int8, "INT8", 1},
                            {DType::int16, "INT16", 2},   {DType::int32, "INT32", 4},   {DType::int64, "INT64", 8},
                            {DType::fp16, "FP16", 2},     {DType::fp32, "FP32", 4},     {DType::fp64, "FP64", 8},
                            {DType::bytes, "BYTES", 0}};
}  // namespace

std::string_view name_of(DType type) {
  for (const Known& known : kKnown) {
    if (known.type == type) return known.name;
  }
  return "UNKNOWN";
}

std::optional<DType> dtype_from(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from(std::uint32_t number) {
  for (const Known& known : kKnown) {
    if (static_cast<std::uint32_t>(known.type) == number) return known.type;
  }
  return std::nullopt;
}

std::size_t element_bytes(DType type) {
  for (const Known& known : kKnown) {
    if (known.type == type) return known.bytes;
  }
  return 0;
}

Outcome<std::uint64_t> element_count(const std::vector<std::int64_t>& shape) {
  if (shape.size() > kMaxRank) return Error{Errc::bad_input, "rank " + std::to_string(shape.size()) + " is over 8"};
  // A dimension of 0 makes the product 0, but the others still have to be sane: take the product of the larger of 1 and
  // each.
  std::uint64_t bound = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return Error{Errc::bad_input, "negative dimension " + std::to_string(dimension)};
    empty = empty || dimension == 0;
    if (__builtin_mul_overflow(bound, static_cast<std::uint64_t>(std::max<std::int64_t>(dimension, 1)), &bound) ||
        bound > (std::uint64_t{1} << 62)) {
      return Error{Errc::bad_input, "the dimensions' product is over 2^62"};
    }
  }
  return empty ? 0 : bound;
}

Outcome<void> check(const TensorSpec& spec) {
  BOOST_OUTCOME_TRY(check_name("tensor", spec.name));
  const auto named = [&](std::string why) {
    return Error{Errc::bad_input, "tensor '" + spec.name + "': " + std::move(why)};
  };
  if (spec.name.size() > 32) return named("its name is over 32 bytes");
  auto count = element_count(spec.shape);
  if (!count) return named(count.error().detail);
  const std::size_t each = element_bytes(spec.dtype);
  if (each == 0) {
    if (spec.bytes / 4 < count.value()) return named("BYTES needs 4 bytes of length for each element");
    return done();
  }
  if (spec.bytes / each != count.value() || spec.bytes % each != 0) {
    return named(std::to_string(spec.bytes) + " bytes do not make " + std::to_string(count.value()) + " elements of " +
                 std::string(name_of(spec.dtype)));
  }
  return done();
}

}  // namespace gearbox::wire
