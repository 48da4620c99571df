// buffers.hpp: memory that a connection has only while bytes pass through it, kept per thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "gearbox/base/bytes.hpp"

namespace gearbox::net {

inline constexpr std::size_t kReadAheadBytes = 4096;
/// For reading: large, so that an upload takes few system calls (and TCP few acknowledgements), yet at home in a core's
/// L2.
inline constexpr std::size_t kScratchBytes = 256 * 1024;
/// Of it, for writing: what a slow peer leaves of a piece is kept, and must be little.
inline constexpr std::size_t kWriteBytes = 64 * 1024;

using ReadAheadBlock = std::array<std::byte, kReadAheadBytes>;

/// A block of this thread's small stock, or a new one; give_back() puts it into the stock of the thread it is called
/// on.
std::unique_ptr<ReadAheadBlock> take_block();
void give_back(std::unique_ptr<ReadAheadBlock> block);

/// This thread's scratch, warm in its cache: for use up to the next co_await only. Ask anew after each wait: the
/// coroutine may go on in another thread. It holds sealed bytes or, when a body is skipped, plain ones.
ByteSpan scratch();

}  // namespace gearbox::net
