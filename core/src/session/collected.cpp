#include "session/collected.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace gearbox::session {

namespace {

constexpr std::uint64_t kTensorCost = 256;  // of memory, beside its bytes

class OwnBytes final : public worker_pool::Slab {
 public:
  explicit OwnBytes(ByteView bytes) : bytes_(bytes.begin(), bytes.end()) {}
  ByteSpan bytes() override { return bytes_; }
  // Never handed to a worker.
  shm::ArenaId arena() const override { return shm::ArenaId{0xFFFFFFFF}; }
  std::uint64_t offset() const override { return 0; }

 private:
  Bytes bytes_;
};

/// One tensor whose first dimension is the sum of those of its parts; nothing when the others differ.
std::optional<pipeline::ResultTensor> grown(const std::string& name, const pipeline::Value& value) {
  if (value.tensors.empty() || value.tensors.front().spec.shape.empty()) return std::nullopt;
  pipeline::ResultTensor all{.spec = value.tensors.front().spec, .pieces = value.tensors};
  all.spec.name = name;
  all.spec.bytes = 0;
  all.spec.shape[0] = 0;
  for (const worker_pool::TensorRef& part : value.tensors) {
    const auto& shape = part.spec.shape;
    if (shape.size() != all.spec.shape.size() || part.spec.dtype != all.spec.dtype ||
        !std::equal(shape.begin() + 1, shape.end(), all.spec.shape.begin() + 1)) {
      return std::nullopt;
    }
    all.spec.shape[0] += shape[0];
    all.spec.bytes += part.spec.bytes;
  }
  return all;
}

}  // namespace

bool Collected::add(const pipeline::RunPart& part) {
  ++came_;
  std::uint64_t cost = kTensorCost;
  for (const pipeline::ResultTensor& tensor : part.tensors) cost += tensor.spec.bytes + kTensorCost;
  if (kept_ + 1 != came_ || bytes_ + cost > limit_bytes_) return false;
  bytes_ += cost;
  ++kept_;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const pipeline::ResultTensor& tensor = part.tensors[i];
    grows_[tensor.spec.name] = part.grows[i];
    pipeline::Value& value = values_[tensor.spec.name];
    value.list = true;
    value.dtype = tensor.spec.dtype;
    worker_pool::TensorRef own;
    own.spec = tensor.spec;
    own.item = part.number;
    own.slab = std::make_shared<OwnBytes>(tensor.pieces.front().bytes());  // a part's tensor is one piece
    value.tensors.push_back(std::move(own));
  }
  return true;
}

std::vector<pipeline::ResultTensor> Collected::tensors(
    const std::vector<std::pair<std::string, wire::DType>>& names) const {
  std::map<std::string, pipeline::Value> all = values_;
  for (const auto& [name, dtype] : names) {
    pipeline::Value none;
    none.list = true;
    none.dtype = dtype;
    all.emplace(name, std::move(none));
  }
  std::vector<pipeline::ResultTensor> out;
  for (const auto& [name, value] : all) {
    const auto grows = grows_.find(name);
    if (auto tensor = grows != grows_.end() && grows->second ? grown(name, value) : std::nullopt) {
      out.push_back(std::move(*tensor));
      continue;
    }
    for (pipeline::ResultTensor& tensor : pipeline::join(name, value)) out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace gearbox::session
