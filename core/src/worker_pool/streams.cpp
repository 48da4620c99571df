// Answers that come in parts: what the worker publishes is checked, handed on, and what is let go of is told to it.
#include <algorithm>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {
constexpr std::uint32_t kRooms = 4;  // parts that a model may be ahead of whoever takes them
}  // namespace

/// How the grant of a call of this worker's model is divided: fewer rooms when all calls that the worker may hold would
/// not fit into its arena together.
shm::PartRooms Worker::part_rooms(std::uint64_t part_bytes) const {
  const std::uint64_t all = capacity() * shm::grant_for(part_bytes);
  const std::uint64_t fit = output ? output->size() / all : 1;
  return shm::part_rooms(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fit, 1, kRooms)), part_bytes);
}

void Pool::open_stream(Worker& worker, Running& running, CallSpec& spec, shm::Descriptor& descriptor) const {
  const shm::PartRooms rooms = worker.part_rooms(spec.grant_bytes);
  descriptor.rooms = rooms.rooms;
  descriptor.grant_bytes = rooms.grant_bytes();  // the slab may be longer: the worker divides what it is told
  running.stream = std::make_shared<StreamCall>(rooms, running.grant, running.block, worker.attachment, Clock::now());
  running.stream->on_part = std::move(spec.on_part);
}

/// Errors: bad_result when the worker broke the contract.
Outcome<void> Pool::took_part(Worker& worker, Running& running, const shm::Descriptor& part, Instant now) {
  const std::shared_ptr<StreamCall> stream = running.stream;
  if (!stream) return Error{Errc::bad_result, "a part of an answer that has none"};
  if (part.part != stream->parts()) {
    return Error{Errc::bad_result, "part " + std::to_string(part.part) + " of a stream, " +
                                       std::to_string(stream->parts()) + " comes next"};
  }
  if (stream->is_full()) return Error{Errc::bad_result, "a part for which no room is free"};
  StreamPart came;
  came.number = part.part;
  const SlabPtr room = stream->next_room();  // let go of at the end of this, unless a tensor keeps it
  BOOST_OUTCOME_TRY(came.tensors, outputs_of(worker, room, part));
  worker.busy_since = now;
  if (worker.life == Life::suspect) worker.life = Life::ready;
  // By value: whoever gets it may cancel the call.
  if (const auto on_part = running.answered ? stream->on_part : nullptr) on_part(std::move(came));
  return done();
}

/// A worker whose streams all wait for somebody to take their parts is not busy; and one that was let go on is since
/// then only.
void Pool::note_waits(Worker& worker, Instant now) const {
  std::size_t waiting = 0;
  for (const Running& running : worker.running) {
    if (!running.stream) continue;
    worker.busy_since = std::max(worker.busy_since, running.stream->credited_at());
    if (running.stream->is_full()) ++waiting;
  }
  // What it has not begun waits behind those.
  if (waiting > 0 && waiting >= std::min<std::size_t>(worker.running.size(), worker.record->streams)) {
    worker.busy_since = now;
  }
}

}  // namespace gearbox::worker_pool
