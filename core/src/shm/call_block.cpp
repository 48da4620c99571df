#include "gearbox/shm/call_block.hpp"

#include <algorithm>
#include <cstring>

#include "gearbox/base/text.hpp"
#include "gearbox/shm/copy_once.hpp"

namespace gearbox::shm {

namespace {
Error broken(std::string why) {
  return Error{Errc::bad_frame, "call block: " + std::move(why)};
}

Outcome<void> read_entry(const std::byte* at, PlacedTensor& tensor) {
  const auto entry = copy_once<TensorEntry>(at);
  tensor.spec.name.assign(entry.name, ::strnlen(entry.name, kTensorNameBytes));
  const auto dtype = wire::dtype_from(entry.dtype);
  if (!dtype) return broken("unknown element type " + std::to_string(entry.dtype));
  if (entry.rank > wire::kMaxRank) return broken("rank " + std::to_string(entry.rank));
  tensor.spec.dtype = *dtype;
  tensor.spec.shape.assign(entry.shape, entry.shape + entry.rank);
  tensor.spec.bytes = entry.bytes;
  auto fits = wire::check(tensor.spec);
  if (!fits) return broken(fits.error().detail);
  tensor.item = entry.item;
  tensor.arena = entry.arena;
  tensor.offset = entry.offset;
  return done();
}
}  // namespace

Outcome<void> BlockWriter::add(const wire::TensorSpec& spec, std::uint32_t item, ArenaId arena, std::uint64_t offset) {
  if (tensors_ == wire::kMaxTensors) {
    return Error{Errc::bad_input, "more than " + std::to_string(wire::kMaxTensors) + " tensors"};
  }
  if (spec.name.size() > kTensorNameBytes || spec.shape.size() > wire::kMaxRank) {
    return Error{Errc::bad_input, "tensor '" + spec.name + "': its name or rank is too long"};
  }
  if (into_.size() < block_bytes(tensors_ + 1, 0)) return Error{Errc::no_space, "no room for the call block"};
  TensorEntry entry{};
  std::memcpy(entry.name, spec.name.data(), spec.name.size());
  entry.dtype = static_cast<std::uint32_t>(spec.dtype);
  entry.rank = static_cast<std::uint32_t>(spec.shape.size());
  std::copy(spec.shape.begin(), spec.shape.end(), entry.shape);
  entry.item = item;
  entry.arena = arena;
  entry.offset = offset;
  entry.bytes = spec.bytes;
  std::memcpy(into_.data() + block_bytes(tensors_, 0), &entry, sizeof entry);
  ++tensors_;
  return done();
}

Outcome<std::uint64_t> BlockWriter::finish(std::uint32_t error, std::string_view text) {
  text = text.substr(0, kMaxTextBytes);
  const std::uint64_t bytes = block_bytes(tensors_, text.size());
  if (into_.size() < bytes) return Error{Errc::no_space, "no room for the call block"};
  BlockHeader header{};
  header.tensors = static_cast<std::uint32_t>(tensors_);
  header.error = error;
  header.text_bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(into_.data(), &header, sizeof header);
  if (!text.empty()) std::memcpy(into_.data() + block_bytes(tensors_, 0), text.data(), text.size());
  return bytes;
}

Outcome<Block> read_block(ByteView block) {
  Block result;
  BOOST_OUTCOME_TRY(read_block(block, result));
  return result;
}

Outcome<void> read_block(ByteView block, Block& into) {
  if (block.size() < sizeof(BlockHeader)) return broken("shorter than its header");
  const auto header = copy_once<BlockHeader>(block.data());
  if (header.tensors > wire::kMaxTensors) return broken(std::to_string(header.tensors) + " tensors");
  if (header.text_bytes > kMaxTextBytes) return broken(std::to_string(header.text_bytes) + " bytes of text");
  if (block_bytes(header.tensors, header.text_bytes) > block.size()) return broken("its parts are longer than it is");
  into.error = header.error;
  into.tensors.resize(header.tensors);
  const std::byte* at = block.data() + sizeof header;
  for (PlacedTensor& tensor : into.tensors) {
    BOOST_OUTCOME_TRY(read_entry(at, tensor));
    at += sizeof(TensorEntry);
  }
  into.text.clear();
  if (header.text_bytes > 0) {
    const std::string copy(reinterpret_cast<const char*>(at), header.text_bytes);  // copied before it is looked at
    into.text = one_line(copy);
  }
  return done();
}

void mark_cancelled(ByteSpan block) {
  if (block.size() < sizeof(BlockHeader)) return;
  const std::uint32_t yes = 1;
  std::memcpy(block.data() + offsetof(BlockHeader, cancelled), &yes, sizeof yes);
}

bool is_cancelled(ByteView block) {
  return block.size() >= sizeof(BlockHeader) && copy_once<BlockHeader>(block.data()).cancelled != 0;
}

namespace {
const std::uint32_t* credit_at(const std::byte* block) {
  return reinterpret_cast<const std::uint32_t*>(block + offsetof(BlockHeader, credited));  // blocks are aligned
}
}  // namespace

// Sequentially consistent, both: with the looks at `consumer_sleeps` in publish() and may_sleep() either the worker
// sees the credit before it sleeps, or the node sees that it sleeps and rings. The release in it also keeps our reading
// of the part before the worker's writing into its room.
void give_credit(ByteSpan block, std::uint32_t parts) {
  if (block.size() < sizeof(BlockHeader)) return;
  __atomic_store_n(const_cast<std::uint32_t*>(credit_at(block.data())), parts, __ATOMIC_SEQ_CST);
}

std::uint32_t credit_of(ByteView block) {
  return block.size() < sizeof(BlockHeader) ? 0 : __atomic_load_n(credit_at(block.data()), __ATOMIC_SEQ_CST);
}

void put_aside(ByteSpan grant, std::uint64_t request) {
  // Relaxed, here and below: nothing is read that depends on it.
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(grant.data() + kAsideOffset))
      .store(request, std::memory_order_relaxed);
}

void take_up(ByteSpan grant) {
  put_aside(grant, 0);
}

bool is_aside(ByteView grant, std::uint64_t request) {
  return grant.size() >= kAnswerBlockBytes && copy_once<std::uint64_t>(grant.data() + kAsideOffset) == request;
}

Outcome<void> check_range(std::uint64_t offset, std::uint64_t bytes, std::uint64_t arena_bytes) {
  if (offset > arena_bytes || bytes > arena_bytes - offset) {
    return broken("bytes " + std::to_string(offset) + " + " + std::to_string(bytes) + " of " +
                  std::to_string(arena_bytes));
  }
  return done();
}

std::string one_line(std::string_view text) {
  const bool plain = is_utf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
                       return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
                     });
  if (plain && text.size() <= kMaxTextBytes) return std::string(text);
  // The limit leaves room for the last escape and the dots.
  return escaped(text, kMaxTextBytes - 16);
}

}  // namespace gearbox::shm
