// collected.hpp: the parts of a streamed answer put together again, in private memory: for a device that takes no
// parts, and for the store. One strand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/run.hpp"

namespace gearbox::session {

class Collected {
 public:
  /// An answer that is put together for its device.
  static constexpr std::uint64_t kAnswerBytes = 16ULL << 20;
  /// What the store gets of one that went out in parts.
  static constexpr std::uint64_t kStoreBytes = 1ULL << 20;

  /// At most `limit_bytes` in all; each part counts for what it costs, and at least for some.
  explicit Collected(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Copies the part's bytes. False when it does not fit, and from then on.
  bool add(const pipeline::RunPart& part);
  /// The parts that are in it, and all that came.
  std::uint32_t kept() const { return kept_; }
  std::uint32_t came() const { return came_; }

  /// Each tensor: its parts behind each other along the first dimension where that is declared to be of any size; else
  /// as a list over the parts, joined as those of a for_each are. `names`: also for those of which nothing came.
  std::vector<pipeline::ResultTensor> tensors(const std::vector<std::pair<std::string, wire::DType>>& names) const;

 private:
  std::uint64_t limit_bytes_;
  std::uint64_t bytes_ = 0;
  std::uint32_t kept_ = 0, came_ = 0;
  std::map<std::string, pipeline::Value> values_;
  std::map<std::string, bool> grows_;
};

}  // namespace gearbox::session
