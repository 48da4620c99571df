#include "liar.hpp"

#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "gearbox/shm/arena.hpp"
#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/doorbell.hpp"
#include "gearbox/shm/ring.hpp"

namespace gearbox::echo {

namespace {
using namespace gearbox::shm;

/// Everything is open to it: what a wild pointer in a real worker could reach.
struct Liar {
  Fd socket, bell;
  Doorbell node_bell;
  Mapping memory, output;
  RingMemory* ring = nullptr;
  std::uint32_t capacity = 0;
  ArenaId arena{};
  std::uint64_t requests_taken = 0, answers_given = 0;
  std::mt19937_64 random;

  bool attach(const std::filesystem::path& node, const WorkerHello& hello) {
    auto dialled = dial(node);
    if (!dialled) return false;
    socket = std::move(dialled).value();
    if (!send_message(socket.get(), AttachBody(hello), {})) return false;
    auto message = receive_message(socket.get());
    const auto* accept = message ? std::get_if<Accept>(&message.value().body) : nullptr;
    if (accept == nullptr) return false;
    auto ring_map = Mapping::map(message.value().fds[kRingFd], ring_bytes(accept->capacity), Access::read_write);
    auto output_map = Mapping::map(message.value().fds[kOutputFd], accept->output_bytes, Access::read_write);
    if (!ring_map || !output_map) return false;
    memory = std::move(ring_map).value();
    output = std::move(output_map).value();
    capacity = accept->capacity;
    arena = accept->output_arena;
    ring = open_ring(memory.data(), memory.size(), capacity).value();
    bell = std::move(message.value().fds[kWorkerBellFd]);
    node_bell = Doorbell(std::move(message.value().fds[kNodeBellFd]));
    return true;
  }

  /// False when the node has gone.
  bool take(Descriptor& call) {
    for (;;) {
      ring->to_worker.consumer_sleeps.store(1);
      if (ring->to_worker.head.load() != requests_taken) break;
      ring->beat.count.fetch_add(1);
      pollfd fds[2] = {{bell.get(), POLLIN, 0}, {socket.get(), POLLIN, 0}};
      ::poll(fds, 2, 200);
      if ((fds[1].revents & (POLLIN | POLLHUP)) != 0) return false;
      std::uint64_t count = 0;
      if ((fds[0].revents & POLLIN) != 0 && ::read(bell.get(), &count, sizeof count) < 0) return false;
    }
    call = to_worker_entries(ring)[requests_taken & (capacity - 1)];
    ring->to_worker.tail.store(++requests_taken);
    return true;
  }

  void give(const Descriptor& answer) {
    to_node_entries(ring, capacity)[answers_given & (capacity - 1)] = answer;
    ring->to_node.head.store(++answers_given);
    node_bell.ring();
  }
};

Descriptor honest(Liar& liar, const Descriptor& call) {
  const ByteSpan grant = liar.output.bytes().subspan(call.grant_offset, call.grant_bytes);
  Descriptor answer{};
  answer.request = call.request;
  answer.attempt = call.attempt;
  answer.kind = CallKind::answer;
  if (call.kind == CallKind::ping) return answer;  // it has no grant
  answer.block_arena = liar.arena;
  answer.block_offset = call.grant_offset;
  BlockWriter block(grant);
  const wire::TensorSpec spec{"y", wire::DType::uint8, {8}, 8};
  if (!block.add(spec, 0, liar.arena, call.grant_offset + kAnswerBlockBytes)) std::abort();
  answer.block_bytes = block.finish().value();
  return answer;
}

/// An honest part number `number`, in the room of part `room`.
Descriptor part_of(Liar& liar, const Descriptor& call, std::uint32_t number, std::uint32_t room) {
  const PartRooms rooms{call.rooms, (call.grant_bytes - kAnswerBlockBytes) / call.rooms};
  Descriptor lent = call;
  lent.grant_offset += rooms.offset_of(room);
  lent.grant_bytes = rooms.room_bytes;
  Descriptor part = honest(liar, lent);
  part.kind = CallKind::part;
  part.part = number;
  return part;
}

/// False: `how` is no lie about parts.
bool lie_in_parts(Liar& liar, const Descriptor& call, std::string_view how) {
  if (how == "part_of_nothing") {
    Descriptor part = honest(liar, call);
    part.kind = CallKind::part;
    liar.give(part);
  } else if (how == "part_number") {
    liar.give(part_of(liar, call, 0, 0));
    liar.give(part_of(liar, call, 2, 1));
  } else if (how == "part_again") {
    liar.give(part_of(liar, call, 0, 0));
    liar.give(part_of(liar, call, 0, 0));
  } else if (how == "part_room") {
    liar.give(part_of(liar, call, 0, 1));
  } else if (how == "part_flood") {
    for (std::uint32_t i = 0; i <= call.rooms; ++i) liar.give(part_of(liar, call, i, i));
  } else if (how == "part_end") {
    liar.give(part_of(liar, call, 0, 0));
    Descriptor end = honest(liar, call);
    end.part = 2;
    liar.give(end);
  } else {
    return false;
  }
  return true;
}

void lie_once(Liar& liar, const Descriptor& call, std::string_view how) {
  if (lie_in_parts(liar, call, how)) return;
  Descriptor answer = honest(liar, call);
  std::byte* block = liar.output.data() + call.grant_offset;
  auto* header = reinterpret_cast<BlockHeader*>(block);
  auto* entry = reinterpret_cast<TensorEntry*>(block + sizeof(BlockHeader));
  constexpr std::uint64_t kHuge = ~std::uint64_t{0} - 7;
  if (how == "request") answer.request ^= 0x10000;
  if (how == "attempt") answer.attempt += 1;
  if (how == "kind") answer.kind = static_cast<CallKind>(77);
  if (how == "block_offset") answer.block_offset = kHuge;
  if (how == "block_bytes") answer.block_bytes = kHuge;
  if (how == "block_arena") answer.block_arena = ArenaId{4711};
  if (how == "tensors") header->tensors = 0xFFFFFFFF;
  if (how == "text") header->text_bytes = 0xFFFFFFFF;
  if (how == "dtype") entry->dtype = 99;
  if (how == "rank") entry->rank = 0xFFFFFFFF;
  if (how == "shape") entry->shape[0] = -1;
  if (how == "tensor_offset") entry->offset = kHuge;
  if (how == "tensor_bytes") entry->bytes = kHuge;
  if (how == "name") std::memset(entry->name, '/', sizeof entry->name);
  if (how == "random") {
    for (auto* at = reinterpret_cast<std::uint64_t*>(&answer); at != reinterpret_cast<std::uint64_t*>(&answer + 1);
         ++at) {
      if (liar.random() % 2 == 0) *at = liar.random();
    }
    for (std::size_t i = 0; i < 256; ++i) {
      if (liar.random() % 4 == 0) block[i] = static_cast<std::byte>(liar.random());
    }
  }
  liar.give(answer);
  if (how == "head") liar.ring->to_node.head.store(kHuge);
  if (how == "head_back") liar.ring->to_node.head.store(0);
  if (how == "tail") liar.ring->to_worker.tail.store(kHuge);
  if (how == "random" && liar.random() % 2 == 0) {
    liar.ring->to_node.head.store(liar.random());
    liar.ring->to_worker.tail.store(liar.random());
    liar.ring->to_node.consumer_sleeps.store(static_cast<std::uint32_t>(liar.random()));
    liar.ring->to_node.producer_cpu.store(static_cast<std::uint32_t>(liar.random()));
  }
  liar.node_bell.ring();
}
}  // namespace

int lie(const std::filesystem::path& node, const shm::WorkerHello& hello, std::string_view how, unsigned seed) {
  Liar liar;
  liar.random.seed(seed);
  if (!liar.attach(node, hello)) return 1;
  Descriptor call{};
  while (liar.take(call)) {
    if (call.kind == CallKind::infer) {
      lie_once(liar, call, how);
    } else {
      liar.give(honest(liar, call));
    }
  }
  return 0;
}

}  // namespace gearbox::echo
