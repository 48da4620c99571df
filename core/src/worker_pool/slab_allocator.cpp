#include "worker_pool/slab_allocator.hpp"

#include <algorithm>
#include <bit>

namespace gearbox::worker_pool {

namespace {
constexpr std::uint64_t kLeast = 64;  // bytes, and the alignment of every piece
constexpr std::uint64_t kLargest = std::uint64_t{1} << 60;
constexpr std::uint64_t kWorthTrimming = 64 * 1024;
}  // namespace

SlabAllocator::SlabAllocator(std::uint64_t capacity_bytes) : capacity_(capacity_bytes / kLeast * kLeast) {
  if (capacity_ > 0) free_.emplace(0, capacity_);
}

/// Eight classes per doubling: at most an eighth is wasted.
std::uint64_t SlabAllocator::class_bytes(std::uint64_t bytes) {
  if (bytes <= kLeast) return kLeast;
  const std::uint64_t step = std::max(kLeast, std::bit_floor(bytes - 1) / 8);
  return (bytes + step - 1) / step * step;
}

std::size_t SlabAllocator::class_of(std::uint64_t class_bytes) {
  const auto power = static_cast<std::size_t>(std::bit_width(class_bytes) - 1);
  const std::uint64_t step = std::max<std::uint64_t>(1, (std::uint64_t{1} << power) / 8);
  return power * 8 + static_cast<std::size_t>((class_bytes - (std::uint64_t{1} << power)) / step);
}

std::optional<SlabAllocator::Piece> SlabAllocator::take(std::uint64_t bytes) {
  if (bytes > kLargest || bytes > capacity_) return std::nullopt;
  Piece piece;
  piece.bytes = class_bytes(bytes);
  auto& cached = classes_[class_of(piece.bytes)];
  if (!cached.empty()) {
    piece.offset = cached.back();
    cached.pop_back();
  } else {
    auto offset = carve(piece.bytes);
    if (!offset) {
      flush_classes();
      offset = carve(piece.bytes);
    }
    if (!offset) return std::nullopt;
    piece.offset = *offset;
  }
  used_ += piece.bytes;
  return piece;
}

void SlabAllocator::give(const Piece& piece) {
  used_ -= piece.bytes;
  if (piece.trimmed) {
    put_back(piece.offset, piece.bytes);
  } else {
    classes_[class_of(piece.bytes)].push_back(piece.offset);
  }
}

void SlabAllocator::trim(Piece& piece, std::uint64_t bytes) {
  const std::uint64_t keep = std::max(kLeast, (bytes + kLeast - 1) / kLeast * kLeast);
  if (keep >= piece.bytes || piece.bytes - keep < kWorthTrimming) return;
  const std::uint64_t rest = piece.bytes - keep;
  put_back(piece.offset + keep, rest);
  used_ -= rest;
  piece.bytes = keep;
  piece.trimmed = true;
}

/// The lowest range that is long enough: low addresses are the ones used most, and so the warm ones.
std::optional<std::uint64_t> SlabAllocator::carve(std::uint64_t bytes) {
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, length] = *found;
  free_.erase(found);
  if (length > bytes) free_.emplace(offset + bytes, length - bytes);
  return offset;
}

void SlabAllocator::put_back(std::uint64_t offset, std::uint64_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

void SlabAllocator::flush_classes() {
  for (std::size_t index = 0; index < classes_.size(); ++index) {
    if (classes_[index].empty()) continue;
    const std::uint64_t power = std::uint64_t{1} << (index / 8);
    const std::uint64_t bytes = power + (index % 8) * std::max<std::uint64_t>(1, power / 8);
    for (const std::uint64_t offset : classes_[index]) put_back(offset, bytes);
    classes_[index].clear();
  }
}

}  // namespace gearbox::worker_pool
