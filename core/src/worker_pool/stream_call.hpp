// stream_call.hpp: the node's side of one call whose answer comes in parts: which parts came, who still holds them, and
// how many the worker may make. One strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gearbox/shm/call_block.hpp"
#include "worker_pool/attachment.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::worker_pool {

/// Kept by the call while it runs, and by each part that somebody holds.
class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  /// `grant` is laid out as `rooms` says; `block` is the call's, where the credit is written.
  StreamCall(shm::PartRooms rooms, SlabPtr grant, SlabPtr block, std::weak_ptr<Attachment> attachment, Instant now);

  /// The room of the part that comes next, as a slab: when its last holder lets go, the worker may use the room again.
  SlabPtr next_room();
  /// Nothing more comes: what is let go of from here on is told to nobody, and the block may be used again.
  void close();
  /// Nobody wants the parts any more. Rings the worker's doorbell: it looks whether the call was cancelled.
  void abandon();

  std::uint32_t parts() const { return parts_; }
  /// Does the worker wait until a part is let go of?
  bool is_full() const { return parts_ - let_go_ >= rooms_.rooms; }
  Instant began() const { return began_; }
  /// When a room was given back last; else the beginning.
  Instant credited_at() const { return credited_at_; }

  std::function<void(StreamPart)> on_part;

 private:
  class Room;
  void let_go(std::uint32_t part);
  void ring() const;

  shm::PartRooms rooms_;
  SlabPtr grant_;
  SlabPtr block_;  // null once it is closed
  std::weak_ptr<Attachment> attachment_;
  Instant began_, credited_at_;
  std::uint32_t parts_ = 0;   // that came
  std::uint32_t let_go_ = 0;  // in order: what the worker has been told
  std::vector<bool> free_;    // by room: let go of, though an earlier part is still held
};

}  // namespace gearbox::worker_pool
