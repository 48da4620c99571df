// endpoint_state.hpp: the inside of a worker's endpoint, for the files that it is made of: endpoint.cpp (attaching,
// calls and answers) and streams.cpp (answers in parts).
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "gearbox/shm/arena.hpp"
#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/doorbell.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "gearbox/shm/ring.hpp"
#include "gearbox/shm/spin.hpp"

namespace gearbox::shm {

struct WorkerEndpoint::State {
  Fd socket;
  Fd epoll;
  Fd own_bell;  // never read: an edge of epoll tells each ring
  Doorbell node_bell;
  Mapping ring_memory;
  RingConsumer requests;
  RingProducer answers;
  std::map<ArenaId, Mapping> arenas;
  std::vector<Mapping> gone;  // of arenas that the node took back while the model held memory of calls
  bool keep_gone = false;
  ByteView input_bytes;  // of the two arenas that nearly every call names
  ByteSpan output_bytes;
  ArenaId output{};
  Block block;                                     // of the call being opened
  std::vector<std::vector<InputTensor>> answered;  // inputs of answered calls: their buffers are used again
  ByteView last_block, last_input;  // where the next call's are likely to be: slabs are used last in, first out
  SpinBudget spin;
  bool broken = false;
  std::atomic<std::uint64_t>* beat = nullptr;

  Outcome<void> adopt(AttachMessage& message);
  Outcome<void> watch();
  Outcome<void> drain_socket();
  void let_go(ArenaId arena);
  Outcome<Call> open(const Descriptor& descriptor, Instant now);
  Outcome<ByteView> view(ArenaId arena, std::uint64_t offset, std::uint64_t bytes);
  void publish(const Descriptor& answer);
  void pong(const Descriptor& ping);
  void refuse(const Descriptor& descriptor, const Error& error);
  Outcome<std::vector<Call>> take(std::uint64_t count, Instant now);
  void expect() const;
  void recycle(Call& call);
  Outcome<void> sleep(Instant until, Instant now);
  Outcome<void> block_until(Instant until, Instant now);
  Outcome<Descriptor> written(Call& call, const std::vector<OutputTensor>& outputs);
};

inline constexpr int kLooks = 32;  // at the ring, between two looks at the clock

/// The answer's descriptor for a call: what the node needs to find it again.
inline Descriptor answer_to(const Descriptor& call, CallKind kind) {
  Descriptor answer{};
  answer.request = call.request;
  answer.attempt = call.attempt;
  answer.kind = kind;
  answer.part = call.part;
  answer.epoch = call.epoch;
  answer.tenant = call.tenant;
  answer.priority = call.priority;
  answer.grant_offset = call.grant_offset;
  answer.grant_bytes = call.grant_bytes;
  return answer;
}
inline std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlign - 1) / kTensorAlign * kTensorAlign;
}

/// The rooms of a streaming call (rooms > 0, a grant that holds a block). Errors: bad_frame.
Outcome<PartRooms> rooms_of(const Descriptor& call);

}  // namespace gearbox::shm
