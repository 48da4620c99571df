#include "worker_pool/attachment.hpp"

namespace gearbox::worker_pool {

Outcome<std::shared_ptr<Attachment>> Attachment::accept(boost::asio::io_context& io, shm::Fd peer,
                                                        const ArenaSlabs& input, const ArenaSlabs& output,
                                                        std::uint32_t spin_us) {
  auto attachment = std::make_shared<Attachment>(io);
  const std::uint64_t bytes = shm::ring_bytes(shm::kRingCapacity);
  BOOST_OUTCOME_TRY(const shm::Fd ring_fd, shm::create_memory("ring", bytes));
  BOOST_OUTCOME_TRY(attachment->memory, shm::Mapping::map(ring_fd, bytes, shm::Access::read_write));
  shm::RingMemory* ring = shm::make_ring(attachment->memory.data(), shm::kRingCapacity);
  attachment->requests = shm::RingProducer(ring->to_worker, shm::to_worker_entries(ring), shm::kRingCapacity);
  attachment->answers =
      shm::RingConsumer(ring->to_node, shm::to_node_entries(ring, shm::kRingCapacity), shm::kRingCapacity);
  attachment->beat = &ring->beat.count;
  BOOST_OUTCOME_TRY(attachment->worker_bell, shm::Doorbell::create());
  BOOST_OUTCOME_TRY(const shm::Doorbell node_bell, shm::Doorbell::create());

  boost::system::error_code error;
  const int own_bell = ::dup(node_bell.fd());
  if (own_bell < 0) return Error{Errc::no_space, "no descriptor for a doorbell"};
  attachment->bell.assign(own_bell, error);
  if (error) {
    ::close(own_bell);
    return Error{Errc::io_error, "doorbell: " + error.message()};
  }
  shm::Accept accept;
  accept.capacity = shm::kRingCapacity;
  accept.input_bytes = input.size();
  accept.output_arena = output.id();
  accept.output_bytes = output.size();
  accept.spin_us = spin_us;
  BOOST_OUTCOME_TRY(shm::send_message(
      peer.get(), shm::AttachBody(accept),
      {ring_fd.get(), attachment->worker_bell.fd(), node_bell.fd(), input.read_only_fd(), output.writable_fd()}));
  attachment->shown = {input.id(), output.id()};
  attachment->socket.assign(peer.get(), error);
  if (error) return Error{Errc::io_error, "workers socket: " + error.message()};
  peer.release();
  return attachment;
}

Outcome<void> Attachment::show(const ArenaSlabs& arena) {
  if (shown.contains(arena.id())) return done();
  shm::ArenaNotice notice;
  notice.arena = arena.id();
  notice.bytes = arena.size();
  BOOST_OUTCOME_TRY(shm::send_message(socket.native_handle(), shm::AttachBody(notice), {arena.read_only_fd()}));
  shown.insert(arena.id());
  return done();
}

void Attachment::forget(shm::ArenaId arena) {
  if (shown.erase(arena) > 0) untold.push_back(arena);
  look_back();
}

void Attachment::look_back() {
  while (!untold.empty()) {
    if (!shm::send_message(socket.native_handle(), shm::AttachBody(shm::ArenaGone{untold.back()}), {})) return;
    untold.pop_back();
  }
}

Outcome<void> Attachment::set_spin(std::uint32_t spin_us) {
  return shm::send_message(socket.native_handle(), shm::AttachBody(shm::SpinNotice{spin_us}), {});
}

}  // namespace gearbox::worker_pool
