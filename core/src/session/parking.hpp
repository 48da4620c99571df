// parking.hpp: moves an answer that waits for its device out of the workers' arenas, which running requests need.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/run.hpp"

namespace gearbox::session {

/// Bounded private memory for answers. Strand only.
class Parking {
 public:
  /// Copies all pieces into one allocation and lets go of their slabs. When that would pass the limit (all parked
  /// answers together), the pieces stay where they are.
  void park(std::vector<pipeline::ResultTensor>& tensors);
  /// Tensors of `specs` that lie one after the other in `bytes`. Errors: corrupt_data when those are not their bytes;
  /// overloaded when that would pass the limit.
  Outcome<std::vector<pipeline::ResultTensor>> unpack(const std::vector<wire::TensorSpec>& specs, Bytes bytes);

 private:
  static constexpr std::uint64_t kLimitBytes = 64ULL << 20;
  // Shared with what is parked, which may outlive us.
  std::shared_ptr<std::uint64_t> used_ = std::make_shared<std::uint64_t>(0);
  std::shared_ptr<std::uint64_t> fetched_ = std::make_shared<std::uint64_t>(0);  // by unpack(), with a limit of its own
};

}  // namespace gearbox::session
