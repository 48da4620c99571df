#include "session/parking.hpp"

#include <cstring>
#include <utility>

namespace gearbox::session {

namespace {

class HeapSlab final : public worker_pool::Slab {
 public:
  HeapSlab(Bytes bytes, std::shared_ptr<std::uint64_t> used) : bytes_(std::move(bytes)), used_(std::move(used)) {
    *used_ += bytes_.size();
  }
  ~HeapSlab() override { *used_ -= bytes_.size(); }
  HeapSlab(const HeapSlab&) = delete;
  HeapSlab& operator=(const HeapSlab&) = delete;
  ByteSpan bytes() override { return bytes_; }
  // Nothing that is parked is ever handed to a worker again.
  shm::ArenaId arena() const override { return shm::ArenaId{0xFFFFFFFF}; }
  std::uint64_t offset() const override { return 0; }

 private:
  Bytes bytes_;
  std::shared_ptr<std::uint64_t> used_;
};

}  // namespace

void Parking::park(std::vector<pipeline::ResultTensor>& tensors) {
  std::uint64_t total = 0;
  for (const pipeline::ResultTensor& tensor : tensors) total += tensor.spec.bytes;
  if (total == 0 || *used_ + total > kLimitBytes) return;
  Bytes all(total);
  std::uint64_t at = 0;
  for (const pipeline::ResultTensor& tensor : tensors) {
    for (const worker_pool::TensorRef& piece : tensor.pieces) {
      const ByteView bytes = piece.bytes();
      if (!bytes.empty()) std::memcpy(all.data() + at, bytes.data(), bytes.size());
      at += bytes.size();
    }
  }
  const auto slab = std::make_shared<HeapSlab>(std::move(all), used_);
  at = 0;
  for (pipeline::ResultTensor& tensor : tensors) {
    for (worker_pool::TensorRef& piece : tensor.pieces) {
      piece.slab = slab;
      piece.offset = at;
      at += piece.spec.bytes;
    }
  }
}

Outcome<std::vector<pipeline::ResultTensor>> Parking::unpack(const std::vector<wire::TensorSpec>& specs, Bytes bytes) {
  std::uint64_t total = 0;
  for (const wire::TensorSpec& spec : specs) total += spec.bytes;
  if (total != bytes.size()) return Error{Errc::corrupt_data, "the answer's bytes are not those of its tensors"};
  if (*fetched_ > 0 && *fetched_ + total > kLimitBytes) {
    return Error{Errc::overloaded, "other answers are being fetched"};
  }
  const auto slab = std::make_shared<HeapSlab>(std::move(bytes), fetched_);
  std::vector<pipeline::ResultTensor> tensors;
  std::uint64_t at = 0;
  for (const wire::TensorSpec& spec : specs) {
    worker_pool::TensorRef piece;
    piece.spec = spec;
    piece.slab = slab;
    piece.offset = at;
    at += spec.bytes;
    tensors.push_back({spec, {std::move(piece)}});
  }
  return tensors;
}

}  // namespace gearbox::session
