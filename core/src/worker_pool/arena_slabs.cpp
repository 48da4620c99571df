#include "worker_pool/arena_slabs.hpp"

#include <algorithm>
#include <utility>

#include "gearbox/shm/prefetch.hpp"

namespace gearbox::worker_pool {

class ArenaSlabs::Cut final : public Slab {
 public:
  Cut(std::shared_ptr<ArenaSlabs> from, SlabAllocator::Piece piece) : from_(std::move(from)), piece_(piece) {}
  ~Cut() override {
    from_->allocator_.give(piece_);
    // Pieces are used last in, first out: the next holder writes here, where a worker has just read.
    if (from_->writable_) shm::will_write(from_->mapping_.data() + piece_.offset, std::min(piece_.bytes, kSoonWritten));
  }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  ByteSpan bytes() override { return from_->mapping_.bytes().subspan(piece_.offset, piece_.bytes); }
  shm::ArenaId arena() const override { return from_->id_; }
  std::uint64_t offset() const override { return piece_.offset; }
  void trim(std::uint64_t bytes) { from_->allocator_.trim(piece_, bytes); }

 private:
  std::shared_ptr<ArenaSlabs> from_;
  static constexpr std::uint64_t kSoonWritten = 192;  // bytes: a call block of one tensor
  SlabAllocator::Piece piece_;
};

Outcome<std::shared_ptr<ArenaSlabs>> ArenaSlabs::create(shm::ArenaId id, const std::string& label, std::uint64_t bytes,
                                                        shm::Access access) {
  std::shared_ptr<ArenaSlabs> arena(new ArenaSlabs(id, bytes));
  arena->writable_ = access == shm::Access::read_write;
  BOOST_OUTCOME_TRY(arena->memory_, shm::create_memory(label, bytes));
  BOOST_OUTCOME_TRY(arena->read_only_, shm::reopen_read_only(arena->memory_));
  BOOST_OUTCOME_TRY(arena->mapping_, shm::Mapping::map(arena->memory_, bytes, access));
  return arena;
}

SlabPtr ArenaSlabs::take(std::uint64_t bytes) {
  const auto piece = allocator_.take(bytes);
  if (!piece) return nullptr;
  return std::make_shared<Cut>(shared_from_this(), *piece);
}

void ArenaSlabs::trim(const SlabPtr& slab, std::uint64_t bytes) {
  static_cast<Cut&>(*slab).trim(bytes);
}

}  // namespace gearbox::worker_pool
