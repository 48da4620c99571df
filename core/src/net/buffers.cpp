#include "net/buffers.hpp"

#include <vector>

namespace gearbox::net {

namespace {
constexpr std::size_t kStock = 64;  // blocks kept per thread: 256 KiB

std::vector<std::unique_ptr<ReadAheadBlock>>& stock() {
  thread_local std::vector<std::unique_ptr<ReadAheadBlock>> blocks;
  return blocks;
}
}  // namespace

std::unique_ptr<ReadAheadBlock> take_block() {
  auto& blocks = stock();
  if (blocks.empty()) return std::make_unique_for_overwrite<ReadAheadBlock>();
  std::unique_ptr<ReadAheadBlock> block = std::move(blocks.back());
  blocks.pop_back();
  return block;
}

void give_back(std::unique_ptr<ReadAheadBlock> block) {
  auto& blocks = stock();
  if (block && blocks.size() < kStock) blocks.push_back(std::move(block));
}

// Never inlined: the compiler must not carry the address of one thread's storage over a co_await into another.
[[gnu::noinline]] ByteSpan scratch() {
  thread_local const std::unique_ptr<std::byte[]> memory = std::make_unique_for_overwrite<std::byte[]>(kScratchBytes);
  return {memory.get(), kScratchBytes};
}

}  // namespace gearbox::net
