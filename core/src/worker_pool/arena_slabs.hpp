// arena_slabs.hpp: one arena of the node (its input arena, or a worker slot's output arena) and the slabs cut from it.
#pragma once

#include <memory>
#include <string>

#include "gearbox/shm/arena.hpp"
#include "worker_pool/slab_allocator.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::worker_pool {

class ArenaSlabs : public std::enable_shared_from_this<ArenaSlabs> {
 public:
  /// Claims the memory. `access` is the node's own: read_write for the input arena, read_only for a worker's.
  /// Errors: no_space; io_error.
  static Outcome<std::shared_ptr<ArenaSlabs>> create(shm::ArenaId id, const std::string& label, std::uint64_t bytes,
                                                     shm::Access access);

  /// nullptr when it is full. The slab keeps the arena alive.
  SlabPtr take(std::uint64_t bytes);
  /// Gives back what `slab`, made by take() of this arena, does not need behind its first `bytes`.
  void trim(const SlabPtr& slab, std::uint64_t bytes);

  shm::ArenaId id() const { return id_; }
  std::uint64_t size() const { return mapping_.size(); }
  std::uint64_t used() const { return allocator_.used_bytes(); }
  /// For the one who may write into it, and for all others.
  int writable_fd() const { return memory_.get(); }
  int read_only_fd() const { return read_only_.get(); }
  /// From here on nobody can map it writable; for the input arena, after the node has mapped it.
  void seal() { sealed_ = shm::forbid_new_writers(memory_); }
  bool sealed() const { return sealed_; }

 private:
  class Cut;
  ArenaSlabs(shm::ArenaId id, std::uint64_t bytes) : id_(id), allocator_(bytes) {}

  shm::ArenaId id_;
  shm::Fd memory_;
  shm::Fd read_only_;
  shm::Mapping mapping_;
  SlabAllocator allocator_;
  bool writable_ = false;  // by the node
  bool sealed_ = false;
};

}  // namespace gearbox::worker_pool
