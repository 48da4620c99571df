// tensor.hpp: the one description of a tensor, on wires and in rings. Names of types are those of KServe v2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::wire {

/// Values are for good: they stand in rings and on wires.
enum class DType : std::uint32_t {
  boolean = 1,
  uint8 = 2,
  uint16 = 3,
  uint32 = 4,
  uint64 = 5,
  int8 = 6,
  int16 = 7,
  int32 = 8,
  int64 = 9,
  fp16 = 10,
  fp32 = 11,
  fp64 = 12,
  bytes = 13,  // elements of any length; in a payload each is u32le length + bytes
};

std::string_view name_of(DType type);  // "UINT8", "FP32", "BYTES" ...
std::optional<DType> dtype_from(std::string_view name);
std::optional<DType> dtype_from(std::uint32_t number);
std::size_t element_bytes(DType type);  // 0 for bytes

inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxTensors = 128;  // of one call, answer or result, list items counted singly
inline constexpr std::size_t kMaxInputs = 64;    // that a device sends; also inputs or outputs that a record declares

/// A tensor without its bytes. `bytes` is the size of the payload in the plain (decoded) form.
struct TensorSpec {
  std::string name;
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;  // row-major; for a request each is >= 0
  std::uint64_t bytes = 0;
};

/// Elements of `shape`. Errors: bad_input for a negative dimension, a rank over kMaxRank or a product over 2^62.
Outcome<std::uint64_t> element_count(const std::vector<std::int64_t>& shape);

/// Errors: bad_input when name, rank, shape and bytes do not fit together, with the tensor's name.
Outcome<void> check(const TensorSpec& spec);

}  // namespace gearbox::wire
