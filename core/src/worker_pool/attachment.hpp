// attachment.hpp: the node's side of one worker's attachment: socket, ring memory, doorbells. It lives as long as the
// worker is attached; what is called on it lies in worker.hpp.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/doorbell.hpp"
#include "gearbox/shm/ring.hpp"
#include "worker_pool/arena_slabs.hpp"

namespace gearbox::worker_pool {

struct Attachment {
  explicit Attachment(boost::asio::io_context& io) : socket(io), bell(io) {}

  /// Makes ring and doorbells and sends them with the arenas. Errors: no_space, io_error, closed, overloaded.
  static Outcome<std::shared_ptr<Attachment>> accept(boost::asio::io_context& io, shm::Fd peer, const ArenaSlabs& input,
                                                     const ArenaSlabs& output, std::uint32_t spin_us);

  /// Makes sure that the worker can see `arena` before a call names it. Errors: overloaded, closed, io_error.
  Outcome<void> show(const ArenaSlabs& arena);

  /// `arena` is no more: the worker unmaps it. A socket that is full is told later, by the next look_back().
  void forget(shm::ArenaId arena);
  void look_back();
  /// Errors: those of send_message; the worker then spins as before until it attaches anew.
  Outcome<void> set_spin(std::uint32_t spin_us);

  boost::asio::posix::stream_descriptor socket;
  /// The node's doorbell for this worker. Never read: the reactor watches for edges from assign() on, and each ring is
  /// one, which ends run_one() although nobody waits for it. Two system calls less for each wake-up.
  boost::asio::posix::stream_descriptor bell;
  shm::Mapping memory;
  shm::RingProducer requests;
  shm::RingConsumer answers;
  const std::atomic<std::uint64_t>* beat = nullptr;  // the worker's sign of life; worth only a look whether it changes
  shm::Doorbell worker_bell;
  std::set<shm::ArenaId> shown;
  std::vector<shm::ArenaId> untold;  // shown once, gone now, and the worker does not know it yet
};

}  // namespace gearbox::worker_pool
