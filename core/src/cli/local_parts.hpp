// local_parts.hpp: parts of a streamed answer, put together from the frames that the node sends.
#pragma once

#include <optional>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/frame.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::cli {

struct LocalPart {
  std::uint32_t number = 0;  // from 0, in order
  std::vector<wire::TensorSpec> tensors;
  Bytes payload;  // the tensors' bytes, one after the other
};

class PartReader {
 public:
  /// Takes a result_part frame; a part when it is whole by it. Errors: bad_frame (out of order, or other bytes than it
  /// announced), result_too_large.
  Outcome<std::optional<LocalPart>> take(const wire::Frame& frame);
  /// How many are whole.
  std::uint32_t count() const { return next_; }

 private:
  std::uint32_t next_ = 0;
  std::optional<LocalPart> half_;
  std::uint64_t announced_ = 0;  // bytes of the half one
};

}  // namespace gearbox::cli
