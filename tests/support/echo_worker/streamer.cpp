#include "streamer.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>

namespace gearbox::echo {

namespace {

constexpr std::size_t kOpen = 4;

std::uint32_t word(const std::string& words, const std::string& name, std::uint32_t otherwise) {
  const std::size_t at = words.find(name + "=");
  return at == std::string::npos ? otherwise
                                 : static_cast<std::uint32_t>(std::atoi(words.c_str() + at + name.size() + 1));
}

struct Stream {
  shm::Call call;
  std::string words;
};

bool goes(const shm::WorkerEndpoint& endpoint, const Stream& stream) {
  return endpoint.has_room(stream.call) || shm::is_cancelled(stream.call.block);
}

/// One part more, or the end. False: it is over.
bool advance(shm::WorkerEndpoint& endpoint, Stream& stream, std::uint32_t slot) {
  shm::Call& call = stream.call;
  const std::chrono::nanoseconds run = Clock::now() - call.taken;
  if (shm::is_cancelled(call.block)) {
    endpoint.fail(call, Error{Errc::cancelled, "closed after " + std::to_string(call.parts)}, run);
    return false;
  }
  const std::uint32_t attempt = call.descriptor.attempt;
  if (const std::uint32_t again = word(stream.words, "full", 0);
      again > 0 && word(stream.words, "slot", slot) == slot) {
    call.again_ms = again;
    endpoint.fail(call, Error{Errc::overloaded, "worker " + std::to_string(slot) + " has enough"}, run);
    return false;
  }
  if (call.parts == word(stream.words, "die", ~0U) && attempt < word(stream.words, "deaths", ~0U)) {
    // Not before the node has seen them all: what lies in the ring goes with the process.
    if (shm::credit_of(call.block) == call.parts) ::raise(SIGKILL);
    return true;
  }
  if (call.parts == word(stream.words, "fail", ~0U)) {
    endpoint.fail(call, Error{Errc::model_failed, "ValueError: in the middle"}, run);
    return false;
  }
  if (call.parts == word(stream.words, "count", 3) || (attempt > 0 && call.parts == word(stream.words, "later", ~0U))) {
    endpoint.end(call, run);
    return false;
  }
  const std::uint32_t size = std::max(word(stream.words, "size", 4), 4U);
  Bytes bytes(size, static_cast<std::byte>(call.parts & 0xFF));
  store_le(bytes.data(), call.parts);
  if (size >= 12 && word(stream.words, "seed", 0) == 1) store_le(bytes.data() + 4, call.descriptor.seed);
  if (size > 4 && attempt > 0 && call.parts == word(stream.words, "differs", ~0U)) bytes.back() ^= std::byte{1};
  const Outcome<void> sent = endpoint.part(call, {{{"x", wire::DType::uint8, {size}, size}, 0, bytes}});
  if (sent) return true;
  endpoint.fail(call, sent.error(), run);
  return false;
}

}  // namespace

int stream(shm::WorkerEndpoint& endpoint, std::uint32_t slot) {
  std::list<Stream> open;
  for (;;) {
    const auto calls = endpoint.next_or(kOpen - open.size(), milliseconds(60'000), [&] {
      return std::any_of(open.begin(), open.end(), [&](const Stream& one) { return goes(endpoint, one); });
    });
    if (!calls) return calls.error().code == Errc::closed || calls.error().code == Errc::not_allowed ? 0 : 1;
    for (const shm::Call& call : calls.value()) {
      if (call.descriptor.kind == shm::CallKind::probe) {
        shm::Call probe = call;
        endpoint.end(probe, {});
      } else {
        open.push_back({call, std::string(text_of(call.inputs.front().bytes))});
      }
    }
    for (auto at = open.begin(); at != open.end();) {
      at = !goes(endpoint, *at) || advance(endpoint, *at, slot) ? std::next(at) : open.erase(at);
    }
  }
}

}  // namespace gearbox::echo
