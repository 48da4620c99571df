#include "worker_pool/stream_call.hpp"

#include <utility>

namespace gearbox::worker_pool {

class StreamCall::Room final : public Slab {
 public:
  Room(std::shared_ptr<StreamCall> of, std::uint32_t part) : of_(std::move(of)), part_(part) {}
  ~Room() override { of_->let_go(part_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  ByteSpan bytes() override {
    return of_->grant_->bytes().subspan(of_->rooms_.offset_of(part_), of_->rooms_.room_bytes);
  }
  shm::ArenaId arena() const override { return of_->grant_->arena(); }
  std::uint64_t offset() const override { return of_->grant_->offset() + of_->rooms_.offset_of(part_); }

 private:
  std::shared_ptr<StreamCall> of_;
  std::uint32_t part_;
};

StreamCall::StreamCall(shm::PartRooms rooms, SlabPtr grant, SlabPtr block, std::weak_ptr<Attachment> attachment,
                       Instant now)
    : rooms_(rooms),
      grant_(std::move(grant)),
      block_(std::move(block)),
      attachment_(std::move(attachment)),
      began_(now),
      credited_at_(now),
      free_(rooms.rooms, false) {}

SlabPtr StreamCall::next_room() {
  return std::make_shared<Room>(shared_from_this(), parts_++);
}

void StreamCall::let_go(std::uint32_t part) {
  free_[part % rooms_.rooms] = true;
  const std::uint32_t before = let_go_;
  while (let_go_ < parts_ && free_[let_go_ % rooms_.rooms]) {
    free_[let_go_ % rooms_.rooms] = false;
    ++let_go_;
  }
  if (let_go_ == before || !block_) return;
  credited_at_ = Clock::now();
  shm::give_credit(block_->bytes(), let_go_);
  ring();
}

void StreamCall::close() {
  block_.reset();
  on_part = nullptr;
}

void StreamCall::abandon() {
  on_part = nullptr;
  ring();
}

void StreamCall::ring() const {
  const std::shared_ptr<Attachment> there = attachment_.lock();
  // Nothing new is pushed: this is the look whether the worker sleeps.
  if (there && there->requests.publish()) there->worker_bell.ring();
}

}  // namespace gearbox::worker_pool
